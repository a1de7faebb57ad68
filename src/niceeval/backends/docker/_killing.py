"""Ending the processes of a command: scripts that run in the container, as the user whose processes they end.

Every command carries a variable (`MARKER`) of its own, which its children inherit. Of what cleared or changed it, all
is killed that began after the command did, unless it carries the marker of another command that runs, or has a parent
that does or that is older. What belongs to process 1 is known by its session, which nothing can join from outside.
"""

from __future__ import annotations

from collections.abc import Iterable

MARKER = "NICEEVAL_EXEC"
"""The variable by which a command's processes are found."""
INIT = "init"
"""The marker of process 1 and of what it starts."""
ROUNDS = 60
"""Looks at all processes before killing is given up: something starts new ones faster than they are found."""

READ = "read"
"""The last word of `memory_kills`, by which it is known to have come to its end."""

KILL_MARKED = """
marker=$1 elapsed=$2 rounds=$3 others="$4 $NICEEVAL_EXEC" earlier=$5
up=$(cat /proc/uptime) && up=${up%%.*}
start=$(( (up - elapsed - 1) * 100 ))
patterns_of() { patterns=; for one; do patterns="$patterns -e NICEEVAL_EXEC=$one"; done; }
patterns_of $others
# What was started in the container, and by no process in it, has the parent 0: the command itself tells when it began.
root=
for folder in /proc/[0-9]*; do
  state_of "$folder" && [ "$parent" = 0 ] && [ "$begun" -ge "$start" ] || continue
  is_of_init && continue
  case $comm in runc*|crun*|exe|conmon*|youki*) continue ;; esac
  if grep -q "NICEEVAL_EXEC=$marker" "$folder/environ" 2>/dev/null; then root=$begun; break; fi
  grep -q $patterns "$folder/environ" 2>/dev/null && continue
  [ -n "$root" ] && [ "$root" -le "$begun" ] || root=$begun
done
# Where it is gone, or not there yet, only the marker tells it from what earlier commands have just left running.
if [ -n "$root" ]; then start=$root; else patterns_of $others $earlier; fi
clean=0
while [ "$rounds" -gt 0 ]; do
  rounds=$((rounds - 1))
  mine=" $(echo $(grep -l "NICEEVAL_EXEC=$marker" /proc/[0-9]*/environ 2>/dev/null)) "
  spared=" $(echo $(grep -l $patterns /proc/[0-9]*/environ 2>/dev/null)) "
  doomed=
  for folder in /proc/[0-9]*; do
    pid=${folder#/proc/}
    [ "$pid" != 1 ] && [ "$pid" != $$ ] || continue
    case $mine in *" $folder/environ "*) state_of "$folder" && doomed="$doomed $pid"; continue ;; esac
    case $spared in *" $folder/environ "*) continue ;; esac
    uid_of "$folder" 2>/dev/null && [ "$uid" = "$me" ] || continue
    state_of "$folder" && [ "$begun" -ge "$start" ] || continue
    is_of_init && continue
    # A command of somebody else that is only being started has no marker yet.
    [ "$parent" != 0 ] || case $comm in runc*|crun*|exe|conmon*|youki*) continue ;; esac
    # It may have begun since the lists were made: what it is now counts, and what its parents are.
    at=$folder
    while :; do
      ! grep -q "NICEEVAL_EXEC=$marker" "$at/environ" 2>/dev/null || break
      ! grep -q $patterns "$at/environ" 2>/dev/null || continue 2
      [ "$parent" -gt 1 ] || break
      at=/proc/$parent
      state_of "$at" || break
      [ "$begun" -ge "$start" ] || continue 2
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
"""Kills by marker, until two looks in a row find nothing.

Arguments: marker, seconds since its start, rounds, the markers of other commands that run, those of ended ones.
"""

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
  session=$4
  shift 19
  begun=$1
  case ${stat##*) } in Z*|X*) return 1 ;; esac
}
is_of_init() { [ "$session" -gt 0 ] && [ "$session" = "$first" ]; }
uid_of /proc/$$
me=$uid
session=0
state_of /proc/1
first=$session
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
    is_of_init && continue
    uid_of "$folder" 2>/dev/null && [ "$uid" = "$me" ] || continue
    left=1
  done
  [ -n "$left" ] || exit 0
done
exit 1
"""
"""Kills everything of the user but process 1, which its own container's signals do not reach."""


def kill_marked(marker: str, elapsed: float, *, others: Iterable[str], earlier: Iterable[str]) -> list[str]:
    """The command that kills the processes of the one with this marker, which began `elapsed` seconds ago.

    `others` are the markers of all other commands that run: no other value in a process's environment spares it.
    `earlier` are those of commands that have ended, which count only where the command itself is not found any more.
    """
    numbers = [str(int(elapsed) + 1), str(ROUNDS)]
    return ["sh", "-c", _FUNCTIONS + KILL_MARKED, "niceeval", marker, *numbers, " ".join(others), " ".join(earlier)]


def kill_all() -> list[str]:
    """The command that kills all processes of its user."""
    return ["sh", "-c", _FUNCTIONS + KILL_ALL, "niceeval", str(ROUNDS)]


def memory_kills() -> list[str]:
    """The command that prints how many processes the kernel killed for memory here: cgroup v2's words, and v1's."""
    files = "/sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control"
    return ["sh", "-c", f"grep -h '^oom_kill ' {files} 2>/dev/null; echo {READ}"]
