"""An image with a real OpenSSH and a real Open MPI, made of Debian's packages."""

from __future__ import annotations

import re
import subprocess
import tarfile
import tempfile
from pathlib import Path

import docker

IMAGE = "skep-test/ssh:1"
PACKAGES = (
    "openmpi-bin openssh-server openssh-client openssh-sftp-server "
    "bash dash coreutils grep sed hostname procps"
)
# Wanted by scripts of packages, which do not run here; and what Open MPI needs for graphics alone.
LEFT_OUT = re.compile(
    r"^(perl|lib.*-perl|libperl|dpkg|debconf|adduser|ucf|libx|ocl-icd|passwd|libpam-|libsem|tar_)"
)
FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/bash\n"
    "sshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n"
    "bee:x:1000:1000::/home/bee:/bin/bash\n",
    "etc/group": "root:x:0:\ntty:x:5:\nbee:x:1000:\nnogroup:x:65534:\n",
    # As useradd leaves a user without a password.
    "etc/shadow": "root:*:19000:0:99999:7:::\nbee:!:19000:0:99999:7:::\n",
}
LINKS = {
    "bin/sh": "dash",
    "usr/bin/mpirun": "mpirun.openmpi",
    "usr/bin/awk": "mawk",
}


def ssh_image(client: docker.DockerClient, user: str = "root") -> str:
    """Return the reference of the one with this USER: "root" or "bee". Made at most once on a
    machine, by a download of 30 MB."""
    image = f"{IMAGE}-{user}"
    if not client.images.list(name=image):
        with tempfile.TemporaryDirectory(prefix="skep-test-ssh-") as folder:
            root = Path(folder) / "root"
            _unpack(_packages(Path(folder)), root)
            _finish(root)
            archive = Path(folder) / "image.tar"
            with tarfile.open(archive, "w") as tar:
                tar.add(root, ".")
            repository, tag = image.split(":")
            client.api.import_image_from_file(
                str(archive), repository=repository, tag=tag, changes=[f"USER {user}"]
            )
    return image


def _packages(folder: Path) -> list[Path]:
    """With all that they need, as if nothing was installed on this machine."""
    (folder / "status").touch()
    (folder / "debs" / "partial").mkdir(parents=True)
    options = {
        "Dir::State::status": folder / "status",
        "Dir::Cache::archives": folder / "debs",
        "Debug::NoLocking": "1",
        "APT::Install-Recommends": "0",
        "APT::Sandbox::User": "root",
    }
    given = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    command = ["apt-get", *given, "--yes", "--quiet", "--download-only", "install"]
    subprocess.run([*command, *PACKAGES.split()], check=True, capture_output=True)
    found = sorted((folder / "debs").glob("*.deb"))
    return [path for path in found if not LEFT_OUT.match(path.name)]


def _unpack(packages: list[Path], root: Path) -> None:
    root.mkdir()
    for package in packages:
        subprocess.run(["dpkg", "--extract", str(package), str(root)], check=True)


def _finish(root: Path) -> None:
    for name, content in FILES.items():
        (root / name).write_text(content)
    for name, target in LINKS.items():
        (root / name).unlink(missing_ok=True)
        (root / name).symlink_to(target)
    for name in ("root", "home/bee", "tmp"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    (root / "etc/shadow").chmod(0o640)
    subprocess.run(["chown", "1000:1000", str(root / "home/bee")], check=True)
    for name in ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/include"):
        subprocess.run(["rm", "-rf", str(root / name)], check=True)
    subprocess.run(["ldconfig", "-r", str(root)], check=True)
