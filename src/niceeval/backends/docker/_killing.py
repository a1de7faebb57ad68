"""Ending the processes of a command: scripts that run in the container, as the user whose processes they end.

Every command carries a variable (`MARKER`) of its own, which its children inherit. One that cleared its environment is
found by what else is known: it is not marked, it began after the command did, and no parent of it is another command's.
"""

from __future__ import annotations

MARKER = "NICEEVAL_EXEC"
"""The variable by which a command's processes are found."""
INIT = "init"
"""The marker of process 1 and of what it starts."""
ROUNDS = 60
"""Looks at all processes before killing is given up: something starts new ones faster than they are found."""

READ = "read"
"""The last word of `memory_kills`, by which it is known to have come to its end."""

KILL_MARKED = """
marker=$1 elapsed=$2 rounds=$3
up=$(cat /proc/uptime) && up=${up%%.*}
since=$(( (up - elapsed - 1) * 100 ))
clean=0
while [ "$rounds" -gt 0 ]; do
  rounds=$((rounds - 1))
  mine=" $(echo $(grep -l "NICEEVAL_EXEC=$marker" /proc/[0-9]*/environ 2>/dev/null)) "
  marked=" $(echo $(grep -l "NICEEVAL_EXEC=" /proc/[0-9]*/environ 2>/dev/null)) "
  doomed=
  for folder in /proc/[0-9]*; do
    pid=${folder#/proc/}
    [ "$pid" != 1 ] && [ "$pid" != $$ ] || continue
    case $mine in *" $folder/environ "*) state_of "$folder" && doomed="$doomed $pid"; continue ;; esac
    case $marked in *" $folder/environ "*) continue ;; esac
    uid_of "$folder" 2>/dev/null && [ "$uid" = "$me" ] || continue
    state_of "$folder" && [ "$begun" -ge "$since" ] || continue
    # A command of somebody else that is only being started has no marker yet.
    [ "$parent" != 0 ] || case $comm in runc*|crun*|exe|conmon*|youki*) continue ;; esac
    # It may have begun since the lists were made: what it is now counts, and what its parents are.
    at=$folder
    while :; do
      if grep -q "NICEEVAL_EXEC=" "$at/environ" 2>/dev/null; then
        grep -q "NICEEVAL_EXEC=$marker" "$at/environ" 2>/dev/null || continue 2
        break
      fi
      [ "$parent" -gt 1 ] || break
      at=/proc/$parent
      state_of "$at" || break
    done
    doomed="$doomed $pid"
  done
  if [ -z "$doomed" ]; then
    clean=$((clean + 1))
    [ $clean -lt 2 ] || exit 0
    continue
  fi
  clean=0
  kill -9 $doomed 2>/dev/null
done
exit 1
"""
"""Kills by marker, until two looks in a row find nothing. Arguments: marker, seconds since its start, rounds."""

_FUNCTIONS = """
uid_of() {
  uid=
  while read -r key value _; do
    [ "$key" != Uid: ] || { uid=$value; return 0; }
  done 2>/dev/null < "$1/status"
  return 1
}
state_of() {
  stat=$(cat "$1/stat" 2>/dev/null) || return 1
  comm=${stat#*\\(}
  set -- ${stat##*) }
  [ $# -ge 20 ] || return 1
  parent=$2
  shift 19
  begun=$1
  case ${stat##*) } in Z*|X*) return 1 ;; esac
}
uid_of /proc/$$
me=$uid
"""

KILL_ALL = """
rounds=$1
while [ "$rounds" -gt 0 ]; do
  rounds=$((rounds - 1))
  kill -9 -1 2>/dev/null
  left=
  for folder in /proc/[0-9]*; do
    pid=${folder#/proc/}
    [ "$pid" != 1 ] && [ "$pid" != $$ ] && state_of "$folder" || continue
    grep -q "NICEEVAL_EXEC=init" "$folder/environ" 2>/dev/null && [ "$parent" -le 1 ] && continue
    uid_of "$folder" 2>/dev/null && [ "$uid" = "$me" ] || continue
    left=1
  done
  [ -n "$left" ] || exit 0
done
exit 1
"""
"""Kills everything of the user but process 1, which its own container's signals do not reach."""


def kill_marked(marker: str, elapsed: float) -> list[str]:
    """The command that kills the processes of the one with this marker, which began `elapsed` seconds ago."""
    return ["sh", "-c", _FUNCTIONS + KILL_MARKED, "niceeval", marker, str(int(elapsed) + 1), str(ROUNDS)]


def kill_all() -> list[str]:
    """The command that kills all processes of its user."""
    return ["sh", "-c", _FUNCTIONS + KILL_ALL, "niceeval", str(ROUNDS)]


def memory_kills() -> list[str]:
    """The command that prints how many processes the kernel killed for memory here: cgroup v2's words, and v1's."""
    files = "/sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control"
    return ["sh", "-c", f"grep -h '^oom_kill ' {files} 2>/dev/null; echo {READ}"]
