"""A real directory on loopback: Debian's slapd with a few people and groups, plain and with TLS."""

from __future__ import annotations

import datetime
import ipaddress
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.support.ports import free_port

BASE = "dc=example,dc=org"
SERVICE, SERVICE_PASSWORD = f"cn=skep,{BASE}", "s3cret-of-the-service"
PASSWORD = "a-password-of-the-directory"
SCHEMAS = ("core", "cosine", "inetorgperson", "nis")
LDIF = f"""
dn: {BASE}
objectClass: dcObject
objectClass: organization
dc: example
o: Example

dn: ou=people,{BASE}
objectClass: organizationalUnit
ou: people

dn: ou=groups,{BASE}
objectClass: organizationalUnit
ou: groups

dn: cn=research,ou=groups,{BASE}
objectClass: groupOfNames
cn: research
member: uid=mei,ou=people,{BASE}
member: uid=omar,ou=people,{BASE}
"""


def person(uid: str, **attributes: str) -> str:
    """The LDIF of a person who has PASSWORD."""
    known = {"cn": uid, "sn": uid, "mail": f"{uid}@example.org", "userPassword": PASSWORD}
    lines = [f"{name}: {value}" for name, value in (known | attributes).items()]
    head = f"dn: uid={uid},ou=people,{BASE}\nobjectClass: inetOrgPerson\nuid: {uid}\n"
    return head + "\n".join(lines) + "\n"


@dataclass(slots=True)
class Directory:
    """A directory that runs, or was stopped."""

    folder: Path
    plain: str
    tls: str
    process: subprocess.Popen[bytes]

    @property
    def ca(self) -> Path:
        return self.folder / "cert.pem"

    def change(self, ldif: str) -> None:
        """Apply an LDIF with changes, as the service."""
        from io import StringIO

        import ldap
        import ldif as format_of_changes

        parser = format_of_changes.LDIFRecordList(StringIO(ldif.strip() + "\n"))
        parser.parse_change_records()
        connection = ldap.initialize(self.plain)
        connection.simple_bind_s(SERVICE, SERVICE_PASSWORD)
        for dn, changes, _ in parser.all_modify_changes:
            connection.modify_s(dn, changes)
        connection.unbind_s()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)


@contextmanager
def directory(folder: Path, *people: str) -> Iterator[Directory]:
    """Serve these people until the end of the context."""
    binary = shutil.which("slapd", path="/usr/sbin:/usr/bin:/usr/libexec:/usr/local/sbin")
    assert binary, "slapd is missing: scripts/bootstrap test"
    # A copy, since AppArmor keeps Debian's own from reading a folder of ours.
    slapd = shutil.copy(binary, folder / "slapd")
    certificate(folder)
    config = folder / "slapd.conf"
    config.write_text(_config(folder))
    (folder / "db").mkdir()
    (folder / "start.ldif").write_text("\n".join((LDIF, *people)))
    add = [slapd, "-T", "add", "-f", config, "-l", folder / "start.ldif"]
    subprocess.run(add, check=True, capture_output=True)
    plain, tls = f"ldap://127.0.0.1:{free_port()}", f"ldaps://127.0.0.1:{free_port()}"
    with (folder / "slapd.log").open("wb") as log:
        serve = [slapd, "-d", "0", "-f", config, "-h", f"{plain} {tls}"]
        process = subprocess.Popen(serve, stdout=log, stderr=log)
    found = Directory(folder, plain, tls, process)
    try:
        _wait(found)
        yield found
    finally:
        found.stop()


def _config(folder: Path) -> str:
    schemas = "\n".join(f"include /etc/ldap/schema/{name}.schema" for name in SCHEMAS)
    return f"""{schemas}
pidfile {folder}/slapd.pid
modulepath /usr/lib/ldap
moduleload back_mdb
TLSCertificateFile {folder}/cert.pem
TLSCertificateKeyFile {folder}/key.pem
database mdb
suffix "{BASE}"
rootdn "{SERVICE}"
rootpw {SERVICE_PASSWORD}
directory {folder}/db
access to attrs=userPassword by anonymous auth by * none
access to * by users read by anonymous none
"""


def certificate(folder: Path) -> None:
    """Write cert.pem, of 127.0.0.1 and its own authority, and key.pem."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    (folder / "key.pem").write_bytes(secret)


def _wait(found: Directory) -> None:
    deadline = time.monotonic() + 60
    for address in (found.plain, found.tls):
        port = int(address.rpartition(":")[2])
        while True:
            assert found.process.poll() is None, (found.folder / "slapd.log").read_text()
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert time.monotonic() < deadline, "slapd does not answer"
                time.sleep(0.05)
