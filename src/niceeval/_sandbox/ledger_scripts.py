"""The ledger's shell scripts: POSIX sh with the tools of busybox, one script for one operation.

Each takes the ledger's folder as `$1` and the workdir as `$2`; starting a command in a sandbox costs as much as taking
a large tree. Nothing that the agent or the image says about git holds here: no configuration, hooks, attributes or
ignore files but the ledger's own. Names may hold anything but NUL: lists are NUL-separated, and no name becomes part
of a script.

The index is built from the list that `find` gives, not by `git add`: that would take a repository inside the workdir
for a submodule, and its files for nobody's.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from niceeval._model.ignoring import IgnorePattern

MAX_FILE_BYTES: Final = 1024 * 1024
"""The largest file whose content the ledger keeps; of a larger one it keeps size and SHA-256."""
MAX_RAW_BYTES: Final = 4 * 1024 * 1024
"""Bytes of the list of changed paths that are looked at."""
MAX_PATCH_BYTES: Final = 24 * 1024 * 1024
"""Bytes of patches that are looked at."""
MAX_CONTENT_BYTES: Final = 24 * 1024 * 1024
"""Bytes of changed files' contents that are looked at."""
MAX_RENAMES: Final = 400
"""Beyond this many created or deleted files only unchanged ones are recognised as renamed."""

NO_GIT: Final = 90
"""Exit code: there is no git."""
NO_INSTALLER: Final = 91
"""Exit code: there is no package manager that is known."""

_PRELUDE: Final = r"""
L=$1 W=$2
export LC_ALL=C HOME="$L" XDG_CONFIG_HOME="$L" GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_ATTR_NOSYSTEM=1
export GIT_DEFAULT_HASH=sha1 GIT_OPTIONAL_LOCKS=0 GIT_TERMINAL_PROMPT=0 GIT_NO_REPLACE_OBJECTS=1
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_NAMESPACE
unset GIT_GRAFT_FILE GIT_SHALLOW_FILE
unset GIT_COMMON_DIR GIT_CONFIG GIT_CONFIG_COUNT GIT_CONFIG_PARAMETERS GIT_PREFIX GIT_EXTERNAL_DIFF GIT_DIFF_OPTS
unset GIT_TRACE GIT_LITERAL_PATHSPECS GIT_GLOB_PATHSPECS GIT_NOGLOB_PATHSPECS GIT_ICASE_PATHSPECS GIT_TEMPLATE_DIR
umask 077
command -v git >/dev/null 2>&1 || exit 90
g() {
  git -c core.hooksPath=/dev/null -c core.attributesFile=/dev/null -c core.excludesFile=/dev/null \
    -c core.autocrlf=false -c core.safecrlf=false -c core.fileMode=true -c core.symlinks=true -c core.bare=false \
    -c core.ignoreCase=false -c core.fsmonitor=false -c core.precomposeUnicode=false -c core.protectNTFS=false \
    -c core.protectHFS=false -c core.untrackedCache=false -c core.quotePath=true -c core.trustctime=true \
    -c core.checkStat=default -c core.splitIndex=false -c gc.auto=0 "$@"
}
"""

# What the agent may have set there since: it runs as the same user, and knows git.
_IN_THE_LEDGER: Final = r"""
export GIT_DIR="$L/git" GIT_INDEX_FILE="$L/git/index"
cd "$L" || exit 70
[ -d "$L/git/objects" ] && [ ! -L "$L/git" ] || exit 71
rm -rf "$L/git/config" "$L/git/config.worktree" "$L/git/commondir" "$L/git/hooks" "$L/git/info" "$L/git/shallow" \
  "$L/git/refs/replace" "$L/git/packed-refs" "$L/git/objects/info/alternates" || exit 71
printf '[core]\n\trepositoryformatversion = 0\n\tbare = true\n' > "$L/git/config" || exit 71
mkdir "$L/git/info" && printf '* !filter -text !crlf !eol !ident !working-tree-encoding !diff !merge\n' \
  > "$L/git/info/attributes" || exit 71
"""

_INIT: Final = r"""
cd "$L" || exit 70
rm -rf "$L/git"
git init -q --bare --template= "$L/git" >/dev/null || exit 71
"""

_DROP_RESULTS: Final = r"""
R="$W/__niceeval__"
if [ -L "$R" ]; then rm -f "$R"; elif [ -d "$R" ]; then rm -rf "$R/results.json"; rmdir "$R" 2>/dev/null; fi
"""

_WRITE_RESULTS: Final = r"""
R="$W/__niceeval__"
umask 022
if [ -L "$R" ] || [ ! -d "$R" ]; then rm -rf "$R"; fi
mkdir -p "$R" && rm -rf "$R/results.json" && cat > "$R/results.json" || echo 'results lost'
umask 077
"""

# One pack for all files instead of an object file for each: several times as fast. A git before 2.37 would make a pack
# for each.
_HOW_TO_PACK: Final = r"""
v=$(git version) && v=${v#git version } && major=${v%%.*} && minor=${v#*.} && minor=${minor%%.*}
BIG=
if [ "$major" -gt 2 ] || { [ "$major" -eq 2 ] && [ "$minor" -ge 37 ]; }; then BIG='-c core.bigFileThreshold=1'; fi
"""

# `@SKIP@` is the part of find that leaves out what is ignored; `@LIMIT@` the largest file in bytes.
_TREE: Final = r"""
[ -d "$W" ] || { mkdir -p "$L/nothing"; W="$L/nothing"; }
export GIT_WORK_TREE="$W"
cd "$W" || exit 72
# Every file is read anew: times and flags that an index remembers are what an agent can set.
rm -rf "$GIT_INDEX_FILE" "$GIT_INDEX_FILE.lock" "$L/index.other" "$L/index.other.lock" "$L/unreadable" "$L/other.info"
part=
find . @SKIP@ \( -type l -o -type f ! -size +@LIMIT@c \) -print0 > "$L/files" 2>/dev/null || part=1
find . @SKIP@ ! -type d ! -type l \( ! -type f -o -size +@LIMIT@c \) -print0 > "$L/others" 2>/dev/null || part=1
add() { [ ! -s "$L/files" ] || g $BIG update-index --add --remove --replace -z --stdin < "$L/files" 2>"$L/said"; }
if ! add; then
  # A file that cannot be read ends git; which one it is takes longer to find out.
  find . @SKIP@ \( -type l -o -type f ! -size +@LIMIT@c \) -exec sh -c '
    for f do
      if [ -L "$f" ] || [ -r "$f" ]; then printf "%s\0" "$f"; else printf "%s\0" "$f" >&3; fi
    done' sh {} + > "$L/files" 3> "$L/unreadable" 2>/dev/null || part=1
  rm -f "$GIT_INDEX_FILE" "$GIT_INDEX_FILE.lock"
  cat "$L/unreadable" >> "$L/others"
  add || add || { tail -n 3 "$L/said" >&2; exit 74; }
fi
if [ -s "$L/others" ]; then
  xargs -0 sh -c '
    for f do
      if [ -f "$f" ] && [ -r "$f" ]; then
        s=$(wc -c < "$f") && h=$({ sha256sum 2>/dev/null || shasum -a 256; } < "$f") || exit 1
        m=100644; [ ! -x "$f" ] || m=100755
        about="oversized $((s)) ${h%% *} $m"
      elif [ -f "$f" ]; then about="special unreadable"
      elif [ -p "$f" ]; then about="special fifo"
      elif [ -S "$f" ]; then about="special socket"
      elif [ -e "$f" ]; then about="special device"
      else continue
      fi
      id=$(printf "%s" "$about" | git hash-object -w --stdin) || exit 1
      printf "160000 %s\t%s\0" "$id" "${f#./}"
    done' sh < "$L/others" > "$L/other.info" || exit 75
fi
if [ -s "$L/other.info" ]; then
  [ ! -f "$GIT_INDEX_FILE" ] || cp "$GIT_INDEX_FILE" "$L/index.other" || exit 75
  export GIT_INDEX_FILE="$L/index.other"
  g update-index --add --replace -z --index-info < "$L/other.info" || exit 75
fi
tree=$(g write-tree --missing-ok) || exit 76
printf 'tree %s\n' "$tree"
[ -z "$part" ] || echo 'partly read'
"""

_KEEP_FIRST: Final = r"""
rm -rf "$L/first" && mkdir "$L/first" || exit 77
[ ! -d "$W" ] || cp -a "$W/." "$L/first/" || exit 77
"""

_WIPE: Final = r"""
# The workdir may be anything by now, also a link to a folder that is somebody else's.
[ -d "$L/first" ] || exit 78
if [ -L "$W" ] || { [ -e "$W" ] && [ ! -d "$W" ]; }; then rm -f "$W"; fi
if [ -d "$W" ]; then
  find "$W" -type d ! -perm -700 -exec chmod u+rwx {} + 2>/dev/null
  find "$W" -mindepth 1 -maxdepth 1 -exec rm -rf {} + || exit 78
fi
"""

_RESTORE: Final = r"""
mkdir -p "$W" && cp -a "$L/first/." "$W/" || exit 78
"""

_MERGE_LISTS: Final = r"""
: > "$L/out"
shift 2
while [ $# -gt 0 ]; do
  g diff-tree -r --raw -z --no-renames "$1" "$2" > "$L/raw" || exit 80
  printf '%s\n' $(($(wc -c < "$L/raw")))
  cat "$L/raw" >> "$L/out"
  shift 2
done
"""

_MERGE_TREES: Final = r"""
cat > "$L/in"
tree_of() {
  rm -f "$L/index.merge" "$L/index.merge.lock"
  GIT_INDEX_FILE="$L/index.merge" g update-index --add --replace -z --index-info < "$1" || exit 81
  GIT_INDEX_FILE="$L/index.merge" g write-tree --missing-ok || exit 81
}
head -c "$3" < "$L/in" > "$L/in.before"
tail -c +$(($3 + 1)) < "$L/in" > "$L/in.after"
printf '%s\n' "$(tree_of "$L/in.before")" "$(tree_of "$L/in.after")"
"""

_CHANGES: Final = r"""
B=$3 A=$4
d() { g diff-tree -r -M -l@RENAMES@ --full-index "$@" "$B" "$A"; }
d --raw -z | head -c @RAW@ > "$L/raw" || exit 80
d -p -a -U3 --no-ext-diff --no-textconv --no-color --no-indent-heuristic --diff-algorithm=myers --submodule=short \
  --src-prefix=a/ --dst-prefix=b/ | head -c @PATCH@ > "$L/patch" || exit 80
d --raw | cut -d ' ' -f 4 | g cat-file --batch --buffer | head -c @CONTENT@ > "$L/content" || exit 80
for f in raw patch content; do printf '%s\n' $(($(wc -c < "$L/$f"))); done
cat "$L/raw" "$L/patch" "$L/content" > "$L/out"
rm -f "$L/raw" "$L/patch" "$L/content"
"""

INSTALL: Final = r"""
if command -v apt-get >/dev/null 2>&1; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq && apt-get install -y -qq --no-install-recommends git
elif command -v apk >/dev/null 2>&1; then apk add --no-cache git
elif command -v microdnf >/dev/null 2>&1; then microdnf install -y git
elif command -v dnf >/dev/null 2>&1; then dnf install -y git
elif command -v yum >/dev/null 2>&1; then yum install -y git
elif command -v zypper >/dev/null 2>&1; then zypper --non-interactive install git
elif command -v pacman >/dev/null 2>&1; then pacman -Sy --noconfirm git
else exit 91
fi
"""
"""Installs git as root with the image's own package manager."""

WIPE: Final = _PRELUDE + _WIPE
"""Empties the workdir, also as root."""
MERGE_LISTS: Final = _PRELUDE + _IN_THE_LEDGER + _MERGE_LISTS
"""What changed in each window; the trees' ids follow as `$3 $4`, `$5 $6`, ... Prints the lists' sizes."""
MERGE_TREES: Final = _PRELUDE + _IN_THE_LEDGER + _MERGE_TREES
"""Makes two trees of index lines; the first `$3` bytes of stdin are the first tree's. Prints their ids."""
CHANGES: Final = (
    (_PRELUDE + _IN_THE_LEDGER + _CHANGES)
    .replace("@RENAMES@", str(MAX_RENAMES))
    .replace("@RAW@", str(MAX_RAW_BYTES))
    .replace("@PATCH@", str(MAX_PATCH_BYTES))
    .replace("@CONTENT@", str(MAX_CONTENT_BYTES))
)
"""The list of changes between the trees `$3` and `$4`, their patches and contents. Prints the three sizes."""


class TreeScripts:
    """The scripts that take a tree of the workdir, and print its id."""

    def __init__(self, patterns: Sequence[IgnorePattern], *, reusable: bool) -> None:
        self._reusable = reusable
        self._tree = _TREE.replace("@SKIP@", _skipping(patterns)).replace("@LIMIT@", str(MAX_FILE_BYTES))

    def baseline(self) -> str:
        """Begins a new ledger with the workdir as it is."""
        keep = _KEEP_FIRST if self._reusable else ""
        return _PRELUDE + _DROP_RESULTS + _INIT + keep + self._taken()

    def before(self) -> str:
        """The tree at the beginning of a window, without the results file."""
        return _PRELUDE + _DROP_RESULTS + self._taken()

    def after(self, *, results: bool) -> str:
        """The tree at the end of a window; then stdin becomes the results file."""
        return _PRELUDE + (_WRITE_RESULTS if results else "") + self._taken()

    def restore(self) -> str:
        """Puts the workdir back to what it was at first."""
        return _PRELUDE + _WIPE + _RESTORE + self._taken()

    def _taken(self) -> str:
        return _IN_THE_LEDGER + _HOW_TO_PACK + self._tree


def _skipping(patterns: Sequence[IgnorePattern]) -> str:
    """The part of a find command that does not go into what is ignored."""
    tests = ["-name .git", "-name '.[gG][iI][tT]'"]
    for pattern in patterns:
        kind = "-type d " if pattern.folder else ""
        text = pattern.text.replace("\\", "\\\\")
        test = f"-path {shlex.quote('./' + text)}" if pattern.anchored else f"-name {shlex.quote(text)}"
        tests.append(kind + test)
    return "! -path . \\( " + " -o ".join(tests) + " \\) -prune -o"
