"""``pocketquery join`` opens the device that its options describe."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from pocketquery.client.device_files import _RULES
from pocketquery.client.gateway import join_command
from pocketquery.sdk.errors import InvalidInputError
from tests.client.secure.test_transport import supernode

__all__ = ["supernode"]


def parsed(options: dict[str, Any]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    join_command.join(parser.add_subparsers())
    given = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return parser.parse_args(["join", "--gateway", "https://gateway.test", *given])


def test_every_rule_of_a_supernodes_configuration_is_an_option() -> None:
    assert [name for name, _, _ in join_command._RULES] == list(_RULES)


def test_an_enrolled_device_is_opened_with_what_it_insists_on(supernode: dict[str, Any]) -> None:
    arguments = parsed(supernode | {"least": 30, "collusion": 0.1, "secure": "allowed"})
    with join_command._opened(arguments) as (device, participant):
        assert participant is not None
        rules = participant._rules
        assert (rules.least, rules.collusion, rules.privacy) == (30, 0.1, "any")
        assert participant.round is None
        assert device._plain
    with join_command._opened(parsed(supernode)) as (device, _):
        assert not device._plain


def test_a_device_that_is_not_enrolled_takes_part_in_plain_rounds(
    supernode: dict[str, Any],
) -> None:
    names = ("bundle", "index", "state", "policy")
    arguments = parsed({name: supernode[name] for name in names})
    with join_command._opened(arguments) as (device, participant):
        assert participant is None
        assert device._plain


def test_an_unset_enrolment_ends_before_the_gateway_is_asked(supernode: dict[str, Any]) -> None:
    arguments = parsed(supernode | {"enrolment": "", "certificate": ""})
    with pytest.raises(InvalidInputError, match="enrolment and certificate missing"):
        join_command._run(arguments)
