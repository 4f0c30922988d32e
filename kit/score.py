#!/usr/bin/env python3
"""Score a tool's answers about the cases of this kit. Needs Python 3.8 and no library.

    python3 score.py answers.json            a table
    python3 score.py --json answers.json     the same for programs, with each case
    python3 score.py --case NAME answers.json

Exit code: 0 every cause named and no false alarm, 1 otherwise, 2 no score.
README.md says what answers.json is.
"""
import argparse
import json
import os
import sys

KIT = os.path.dirname(os.path.abspath(__file__))


class Refused(Exception):
    """The answers are not what README.md says."""


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as err:
        raise Refused(f"{path}: {err}") from err


def expected_cases():
    folder = os.path.join(KIT, "cases")
    return {name: read(os.path.join(folder, name, "expected.json")) for name in sorted(os.listdir(folder))}


def want(condition, where, what):
    if not condition:
        raise Refused(f"{where}: {what}")


def text(value):
    return value is None or isinstance(value, str)


def checked(answers, cases):
    """The answers by case; anything that README.md does not name is refused."""
    want(isinstance(answers, dict) and isinstance(answers.get("cases"), dict), "the answers", "there is no object \"cases\"")
    for name, answer in answers["cases"].items():
        want(name in cases, name, "the kit has no such case")
        want(isinstance(answer, dict) and not set(answer) - {"findings", "waiting"}, name, "an answer has findings and waiting")
        for key, fields in (("findings", {"code", "object", "severity"}), ("waiting", {"pod", "verdict", "stage", "actor"})):
            entries = answer.get(key) or []
            want(isinstance(entries, list), name, f"{key} is no list")
            for entry in entries:
                want(isinstance(entry, dict) and not set(entry) - fields, name, f"an entry of {key} has {', '.join(sorted(fields))}")
                want(all(text(entry.get(field)) for field in fields), name, f"the fields of {key} are text")
            if key == "findings":
                want(all(e.get("code") or e.get("object") for e in entries), name, "a finding has a code or an object")
            else:
                want(all(e.get("pod") for e in entries), name, "who waits has a pod")
    return answers["cases"]


def names_cause(finding, cause):
    """The finding has a code of the cause and, if it names one, an object that it is about."""
    at = finding.get("object")
    return finding.get("code") in cause["anyOf"] and (not at or not cause["objects"] or at in cause["objects"])


def names_object(finding, cause):
    return finding.get("object") in cause["objects"]


def false_alarm(finding, case):
    """What the case refutes. In a thread, whose other findings nobody has judged, that
    is a cause that its participants ruled out."""
    code = finding.get("code")
    if finding.get("severity") == "info":
        return False
    if case["kind"] == "thread":
        return code in case["refuted"]
    if not code:
        return not any(names_object(finding, cause) for cause in case["causes"])
    return code not in case["mayReport"] and not any(names_cause(finding, cause) for cause in case["causes"])


def score(case, answer):
    findings, waiting = answer.get("findings") or [], answer.get("waiting") or []
    result = {"causes": 0, "named": 0, "object": 0, "missed": [], "falseAlarms": [],
              "waits": 0, "verdicts": 0, "stages": 0, "actors": 0}
    for cause in case["causes"]:
        result["causes"] += 1
        if any(names_cause(f, cause) for f in findings):
            result["named"] += 1
        elif any(names_object(f, cause) for f in findings):
            result["object"] += 1
        else:
            result["missed"].append("/".join(cause["anyOf"]))
    for f in findings:
        if false_alarm(f, case):
            result["falseAlarms"].append(" ".join(filter(None, (f.get("code"), f.get("object")))))
    said = {w["pod"]: w for w in waiting}
    for pod in case["waiting"]:
        result["waits"] += 1
        entry = said.pop(pod["pod"], {})
        right = entry.get("verdict") == pod["verdict"]
        result["verdicts"] += right
        result["stages"] += right and (entry.get("stage") or "") == pod["stage"]
        result["actors"] += right and (entry.get("actor") or "") == pod["actor"]
    if case["kind"] == "corpus":
        result["falseAlarms"] += [f"{pod} is stuck" for pod, w in said.items() if w.get("verdict") == "stuck"]
    return result


COUNTED = ("causes", "named", "object", "waits", "verdicts", "stages", "actors")


def summed(results):
    total = {key: sum(r[key] for r in results) for key in COUNTED}
    total["missed"] = sum(len(r["missed"]) for r in results)
    total["falseAlarms"] = sum(len(r["falseAlarms"]) for r in results)
    total["cases"] = len(results)
    return total


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("answers")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--case", help="only this case")
    args = parser.parse_args(argv)
    try:
        kit = read(os.path.join(KIT, "kit.json"))
        cases = expected_cases()
        answers = read(args.answers)
        given = checked(answers, cases)
        if args.case:
            want(args.case in cases, args.case, "the kit has no such case")
            cases = {args.case: cases[args.case]}
    except Refused as err:
        print(f"error: {err}", file=sys.stderr)
        return 2
    results = {name: score(case, given.get(name, {})) for name, case in cases.items()}
    by_kind = {kind: summed([results[name] for name, case in cases.items() if case["kind"] == kind]) for kind in ("corpus", "thread")}
    unanswered = [name for name in cases if name not in given]
    if args.json:
        print(json.dumps({"kit": kit, "tool": answers.get("tool"), "scores": by_kind, "unanswered": unanswered, "cases": results}, indent=1, sort_keys=True))
    else:
        print(f"kit {kit['version']}, digest {kit['digest'][:12]}, answers of {answers.get('tool') or 'a tool without a name'}")
        for kind, total in by_kind.items():
            if not total["cases"]:
                continue
            print(f"\n{kind}: {total['cases']} cases, {total['causes']} causes")
            print(f"  named         {total['named']}")
            print(f"  object alone  {total['object']}")
            print(f"  missed        {total['missed']}")
            print(f"  false alarms  {total['falseAlarms']}")
            if total["waits"]:
                print(f"  of {total['waits']} pods that wait: verdict {total['verdicts']}, stage {total['stages']}, actor {total['actors']}")
        if unanswered:
            print(f"\n{len(unanswered)} cases have no answer, which counts as an answer that finds nothing")
        shown = 0
        for name, result in results.items():
            if (result["missed"] or result["falseAlarms"]) and shown < 20:
                shown += 1
                if shown == 1:
                    print()
                print(f"{name}: missed {', '.join(result['missed']) or 'nothing'}; false alarms {', '.join(result['falseAlarms']) or 'none'}")
    wrong = any(r["missed"] or r["object"] or r["falseAlarms"] for r in results.values())
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
