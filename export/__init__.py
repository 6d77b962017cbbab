"""Export a distilled student as a bundle, the files that a device needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pocketquery.sdk.lazy import lazy_names

if TYPE_CHECKING:
    from pocketquery.export.bundle.bundling import ExportReport, export_bundle
    from pocketquery.export.package_command import write_package
    from pocketquery.export.quantization.ranking_gate import GateData, GateReport
    from pocketquery.export.settings import ExportOptions, GateThresholds

__all__ = [
    "export_bundle",
    "ExportOptions",
    "ExportReport",
    "GateData",
    "GateReport",
    "GateThresholds",
    "write_package",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "bundle.bundling": ["export_bundle", "ExportReport"],
        "package_command": ["write_package"],
        "quantization.ranking_gate": ["GateData", "GateReport"],
        "settings": ["ExportOptions", "GateThresholds"],
    },
)
