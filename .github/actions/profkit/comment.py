"""Write a folder's comment.md below the pull request, in the place of the one written before; roofline.png to a branch.

    python comment.py FOLDER        variables: GITHUB_TOKEN, GITHUB_REPOSITORY, GITHUB_EVENT_PATH, GITHUB_API_URL,
                                    GITHUB_SHA, PICTURE_BRANCH

Standard library alone: it runs where profkit's dependencies are not.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

MARK = "<!-- profkit -->"
PAGES = 20


def ask(method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """An answer of the API. Raises urllib.error.HTTPError."""
    api = os.environ.get("GITHUB_API_URL", "https://api.github.com")
    request = urllib.request.Request(f"{api}{path}", method=method)
    request.add_header("Authorization", f"Bearer {os.environ['GITHUB_TOKEN']}")
    request.add_header("Accept", "application/vnd.github+json")
    data = json.dumps(body).encode() if body is not None else None
    with urllib.request.urlopen(request, data, timeout=30) as answer:
        return json.loads(answer.read() or b"null")


def number() -> int | None:
    """The pull request that the event is about; None for a push."""
    event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text("utf-8"))
    found = event.get("pull_request", event.get("issue", {})).get("number", event.get("number"))
    return int(found) if found is not None else None


def write(text: str, repository: str, pull: int) -> str:
    """Change the comment that carries the mark, or make one; what was done."""
    for page in range(1, PAGES + 1):
        listed = ask("GET", f"/repos/{repository}/issues/{pull}/comments?per_page=100&page={page}")
        for one in listed:
            if str(one.get("body", "")).startswith(MARK):
                ask("PATCH", f"/repos/{repository}/issues/comments/{one['id']}", {"body": text})
                return "updated"
        if len(listed) < 100:
            break
    ask("POST", f"/repos/{repository}/issues/{pull}/comments", {"body": text})
    return "written"


def keep(picture: Path, repository: str, branch: str, name: str) -> None:
    """Put the picture on its branch, which is there or is made from the default one."""
    path = f"/repos/{repository}/contents/{name}"
    body = {"message": f"profkit: {name}", "content": base64.b64encode(picture.read_bytes()).decode(), "branch": branch}
    try:
        body["sha"] = ask("GET", f"{path}?ref={branch}")["sha"]
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        try:
            ask("GET", f"/repos/{repository}/git/ref/heads/{branch}")
        except urllib.error.HTTPError:
            head = ask("GET", f"/repos/{repository}")["default_branch"]
            sha = ask("GET", f"/repos/{repository}/git/ref/heads/{head}")["object"]["sha"]
            ask("POST", f"/repos/{repository}/git/refs", {"ref": f"refs/heads/{branch}", "sha": sha})
    ask("PUT", path, body)


def main(folder: Path) -> int:
    pull, repository = number(), os.environ["GITHUB_REPOSITORY"]
    if pull is None:
        sys.stderr.write("no pull request: no comment\n")
        return 0
    branch, picture = os.environ.get("PICTURE_BRANCH", ""), folder / "roofline.png"
    if branch and picture.is_file():
        keep(picture, repository, branch, f"{os.environ.get('GITHUB_SHA', 'x')}.png")
    sys.stderr.write(f"comment {write((folder / 'comment.md').read_text('utf-8'), repository, pull)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
