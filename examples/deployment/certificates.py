"""Certificates for TLS and keys for node authentication, made on the spot.

A certificate authority of its own signs the server's certificate; every SuperNode gets a key pair
on the curve P-384, in the OpenSSH form that Flower reads. For a trial on one machine: where real
devices connect, take the server's certificate from your own authority.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = [
    "NodeKey",
    "ServerCertificate",
    "make_enrolment_authority",
    "make_node_key",
    "make_server_certificate",
    "make_signing_key",
]

_VALID = datetime.timedelta(days=30)


@dataclass(frozen=True)
class ServerCertificate:
    """Where the PEM files lie: the authority clients trust, the server's certificate and key."""

    authority: Path
    certificate: Path
    key: Path


@dataclass(frozen=True)
class NodeKey:
    """Where a SuperNode's key pair lies, in OpenSSH form."""

    private: Path
    public: Path


def make_server_certificate(folder: Path, host: str = "127.0.0.1") -> ServerCertificate:
    """An authority and a certificate for ``host`` (and localhost), valid for 30 days."""
    folder.mkdir(parents=True, exist_ok=True)
    authority_key, server_key = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    authority_name = _name("pocketquery trial authority")
    authority = (
        _builder(authority_name, authority_name, authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(
            x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False
        )
        .sign(authority_key, hashes.SHA384())
    )
    names: list[x509.GeneralName] = [x509.DNSName("localhost")]
    names.append(x509.IPAddress(ipaddress.ip_address(host)))
    server = (
        _builder(_name(host), authority_name, server_key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
            critical=False,
        )
        .sign(authority_key, hashes.SHA384())
    )
    files = ServerCertificate(folder / "ca.crt", folder / "server.crt", folder / "server.key")
    files.authority.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    files.certificate.write_bytes(server.public_bytes(serialization.Encoding.PEM))
    _write_private(files.key, server_key, serialization.PrivateFormat.TraditionalOpenSSL)
    return files


def make_node_key(folder: Path, name: str) -> NodeKey:
    """A key pair by which the SuperLink knows one SuperNode."""
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP384R1())
    files = NodeKey(folder / name, folder / f"{name}.pub")
    _write_private(files.private, key, serialization.PrivateFormat.OpenSSH)
    files.public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
        )
    )
    return files


def make_enrolment_authority(folder: Path) -> tuple[Path, Path]:
    """The private and the public key of an authority that enrols devices for private rounds.

    For a trial: the authority is to be another party than the server's operator, and its private
    key never on the server.
    """
    return make_signing_key(folder, "authority")


def make_signing_key(folder: Path, name: str) -> tuple[Path, Path]:
    """An Ed25519 key pair as PEM files, private and public; the one that is there already."""
    folder.mkdir(parents=True, exist_ok=True)
    private, public = folder / f"{name}.pem", folder / f"{name}.pub.pem"
    if public.is_file():
        return private, public
    key = ed25519.Ed25519PrivateKey.generate()
    _write_private(private, key, serialization.PrivateFormat.PKCS8)
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    return private, public


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))  # clocks differ
        .not_valid_after(now + _VALID)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _write_private(
    path: Path,
    key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey,
    form: serialization.PrivateFormat,
) -> None:
    data = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
