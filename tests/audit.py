"""Ask the open vulnerability database (osv.dev) about every installed package this one needs.

    python -m tests.audit

Ends with an error if a weakness is known; without a connection it says so in one line and passes. Only names and
versions of packages are sent. A weakness that does not concern this library goes into `ACCEPTED`, with the reason.
"""

import json
import re
import sys
import urllib.request
from importlib.metadata import PackageNotFoundError, distribution

SERVICE = "https://api.osv.dev/v1/querybatch"
ACCEPTED: dict[str, str] = {}  # id of a weakness → why it does not concern this library


def installed(root: str = "hf_labelattn", extras: tuple[str, ...] = ("test", "demo", "onnx")) -> dict[str, str]:
    """Versions of all packages that one needs, directly or not."""
    found, waiting = {}, [root]
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue
        if name in found:
            continue
        found[name] = package.version
        for line in package.requires or ():
            optional = re.search(r"extra == ['\"]([\w-]+)['\"]", line)
            if optional is None or (name == "hf-labelattn" and optional[1] in extras):
                waiting.append(re.match(r"[\w.-]+", line)[0])
    return {name: version.split("+")[0] for name, version in found.items() if name != "hf-labelattn"}


def weaknesses(packages: dict[str, str], service: str = SERVICE, seconds: float = 20) -> dict[str, list[str]]:
    """Ids of the known weaknesses of each package that has any."""
    asked = [{"package": {"name": n, "ecosystem": "PyPI"}, "version": v} for n, v in packages.items()]
    body, kind = json.dumps({"queries": asked}).encode(), {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(service, body, kind), timeout=seconds) as answer:
        rows = json.load(answer)["results"]
    ids = {n: [w["id"] for w in row.get("vulns", [])] for n, row in zip(packages, rows, strict=True)}
    return {name: left for name, found in ids.items() if (left := [i for i in found if i not in ACCEPTED])}


def main(service: str = SERVICE) -> int:
    """Ask, and say what was found."""
    packages = installed()
    try:
        found = weaknesses(packages, service)
    except (OSError, ValueError, KeyError) as error:
        print(f"known weaknesses were not looked up: {service} cannot be reached ({type(error).__name__})")
        return 0
    for name, ids in found.items():
        print(f"{name} {packages[name]}: {', '.join(ids)} (see https://osv.dev)")
    print(f"{len(packages)} packages asked about, {len(found)} with known weaknesses")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
