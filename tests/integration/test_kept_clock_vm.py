"""A kept sandbox while the wall clock jumps by hours: in the virtual machine, whose clock is its own."""
import json

from vm import observe

CLOCK = r"""
export PINFOLD_STATE=/run/pin-state PINFOLD_CACHE=/tmp PINFOLD_BILLS=/run/pin-bills PINFOLD_AUDIT=/run/pin-log/audit.jsonl
mkdir -m 700 /run/pin-state /run/pin-log
echo '{"pinfold": 1, "name": "clock", "audit": {"record": ["lifecycle"]}, "resources": {"wall_time": "1h"}}' >/run/policy.json
now() { date +%s; }
up() { pinfold up "$@" --policy /run/policy.json >/dev/null; }
state() { pinfold ls --json | /usr/bin/python3 -c 'import json, sys; print(json.dumps({s["name"]: s["state"] for s in json.load(sys.stdin)}))'; }
up forward --idle-timeout 2h --lifetime 3h; up backward --idle-timeout 2h --lifetime 3h
pinfold exec backward --detach --timeout 30m -- sleep 1000
date -s @$(($(now) + 5 * 3600)) >/dev/null
pinfold exec forward -- echo hours later
note forward; state
pinfold exec forward --detach --timeout 30m -- sleep 1000
date -s @$(($(now) - 12 * 3600)) >/dev/null
pinfold exec backward -- echo hours before
note backward; state
up short --lifetime 2s; up idle --idle-timeout 2s
date -s @$(($(now) - 12 * 3600)) >/dev/null
for i in $(seq 200); do [ "$(pinfold ls --json | grep -o '"ended"' | wc -l)" = 2 ] && break; sleep 0.1; done
note ended; state
note why; for name in short idle; do pinfold show $name --json | /usr/bin/python3 -c 'import json, sys; print(json.load(sys.stdin)["end"]["why"])'; done
note limited; pinfold exec --json --timeout 1s forward -- sleep 100 | /usr/bin/python3 -c 'import json, sys; r = json.load(sys.stdin); print(r["status"], 900 <= r["usage"]["wall_ms"] < 60000)'
note running; pinfold show forward --json | /usr/bin/python3 -c 'import json, sys; print([e["state"] for e in json.load(sys.stdin)["execs"]])'
note log; pinfold logs forward --json | /usr/bin/python3 -c 'import json, sys; r = [json.loads(l) for l in sys.stdin]; print([x["seq"] for x in r] == list(range(1, len(r) + 1)), [x["t_ns"] for x in r] == sorted(x["t_ns"] for x in r))'
note audit; pinfold audit verify >/dev/null; echo $?
/usr/bin/python3 -c 'import json; r = [json.loads(l) for l in open("/run/pin-log/audit.jsonl")]; print([x["mono_ns"] for x in r] == sorted(x["mono_ns"] for x in r), [x["time"] for x in r] == sorted(x["time"] for x in r))'
pinfold rm --force forward backward short idle
note left
"""


def test_hours_forward_and_back_end_no_sandbox_and_keep_none_alive(tmp_path):
    """The wall clock itself jumps, and is seen to: the records of the audit log aren't in its order, but in that of the other."""
    seen, everything = observe(tmp_path, CLOCK)
    assert "left" in seen, everything
    assert json.loads(seen["forward"][0]) == {"forward": "running", "backward": "running"}
    assert json.loads(seen["backward"][0]) == {"forward": "running", "backward": "running"}
    assert json.loads(seen["ended"][-1]) == {"forward": "running", "backward": "running", "short": "ended", "idle": "ended"}
    assert seen["why"] == ["lifetime", "idle"]
    assert seen["limited"] == ["timeout True"]
    assert seen["running"] == ["['running']"]
    assert seen["log"] == ["True True"]
    assert seen["audit"] == ["0", "True False"]
