"""Prints the licence of each package named in a file, given cargo's metadata on stdin."""

import json
import pathlib
import sys

wanted = set(pathlib.Path(sys.argv[1]).read_text().split("\n"))
texts = {}
for package in json.load(sys.stdin)["packages"]:
    name = f"{package['name']} v{package['version']}"
    if name not in wanted:
        continue
    directory = pathlib.Path(package["manifest_path"]).parent
    files = [
        file
        for file in sorted(directory.iterdir())
        if file.name.upper().startswith(("LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"))
        and file.is_file()
    ]
    print(f"\n{name}: {package['license'] or 'see its files'}")
    if not files:
        print("  (its package has no licence text; the terms are those of that name)")
    for file in files:
        texts.setdefault(file.read_text(errors="replace").strip(), []).append(f"{name} ({file.name})")
for text, names in texts.items():
    print("\n" + "=" * 80)
    print("\n".join(names))
    print("=" * 80 + "\n\n" + text)
