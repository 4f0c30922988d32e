package safetext

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
)

func TestWithFlags(t *testing.T) {
	for command, want := range map[string]string{
		"kubectl patch node n1 -p '[]'":                     "kubectl --context=a patch node n1 -p '[]'",
		"kubectl patch node n1 -p '{\"a\":\"| kubectl \"}'": "kubectl --context=a patch node n1 -p '{\"a\":\"| kubectl \"}'",
		"kubectl volume-doctor trace pod/web-0 -n a":        "kubectl volume-doctor trace pod/web-0 -n a --context=a",
		"something else": "something else",
		KubectlWithInput("it's | kubectl x", "create", "-f", "-"): KubectlWithInput("it's | kubectl x", "--context=a", "create", "-f", "-"),
	} {
		if got := WithFlags(command, "--context=a"); got != want {
			t.Errorf("%s: %s", command, got)
		}
	}
	if got := WithFlags("kubectl get pods", "--context=it's $HOME"); got != `kubectl '--context=it'\''s $HOME' get pods` {
		t.Error(got)
	}
}

// TestQuote: bash takes each word for the text that it was made of, and nothing
// in it runs. An older shell may read another text, but it too reads one word.
func TestQuote(t *testing.T) {
	long.Test(t)
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	pieces := []string{
		"$(touch x)", "`touch x`", "'", "\"", "\n", ";", "-", "--", " ", "touch x", "\\", "$", "${x}", "!", "!!", "*", "?", "[a]", "{a,b}", "~", "=", "#", "&", "|", ">x", "<x", "(", ")",
		"\x1b[31m", "\u202e", "\u200b", "\U000e0041", "\ufe0f", "\x9b", "\xff", "\r", "\t", "\x7f", "ä", "日本", "a",
	}
	word := rapid.Map(rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(pieces), rapid.StringMatching(`[ -~]{0,5}`)), 0, 6),
		func(parts []string) string { return strings.Join(parts, "") })
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(word, 1, 8).Draw(t, "words")
		line := `printf '%s\0'`
		for _, w := range words {
			quoted := Quote(w)
			if strings.ContainsFunc(quoted, Hidden) {
				t.Fatalf("%q has hidden characters", quoted)
			}
			line += " " + quoted
		}
		run := func(shell string) []string {
			c := exec.Command(shell, "-c", line)
			c.Dir, c.Env = dir, []string{"PATH=" + os.Getenv("PATH")}
			out, err := c.Output()
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
		}
		if got := run(bash); strings.Join(got, "\x00") != strings.Join(words, "\x00") {
			t.Fatalf("%s\n%q\n%q", line, got, words)
		}
		if got := run(shell); len(got) != len(words) {
			t.Fatalf("sh: %s\n%q\n%q", line, got, words)
		}
		if files, _ := filepath.Glob(dir + "/*"); len(files) > 0 {
			t.Fatalf("%s wrote %s", line, files)
		}
	})
}

// TestKubectlWords: what Kubectl writes is built again as it is, whatever its words; anything
// else than one command of kubectl is refused.
func TestKubectlWords(t *testing.T) {
	rebuilt := func(line string) string {
		words, ok := KubectlWords(line)
		if !ok {
			return ""
		}
		return Kubectl(words...)
	}
	word := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~]{0,8}`), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(word, 1, 6).Draw(t, "words")
		line := Kubectl(words...)
		if got := rebuilt(line); got != line {
			t.Fatalf("%q became %q", line, got)
		}
		at := rapid.IntRange(0, len(line)).Draw(t, "at")
		changed := line[:at] + rapid.SampledFrom([]string{"'", "$", "`", ";", "|", "\\", " ", "\n", "\"", ">", "&", "*", "$'", "\\'", "(", "\x00", "\u202e"}).Draw(t, "insert") + line[at:]
		if again := rebuilt(changed); again != "" {
			if parts, ok := split(again); !ok || again != Kubectl(parts[1:]...) {
				t.Fatalf("%q became %q", changed, again)
			}
		}
	})
	for _, bad := range []string{
		"", "kubectl", "kubectl ", " kubectl get pods", "kubectl  get pods", "kubectl get pods ", "curl x", "sudo kubectl get pods", "kubectl; curl x", "kubectl get pods; curl x", "kubectl get pods;curl x",
		"kubectl get pods | sh", "kubectl get pods|sh", "kubectl get pods && curl x", "kubectl get pods & curl x", "kubectl get $(curl x)", "kubectl get `curl x`", "kubectl get ${x}", "kubectl get $x", "kubectl get \"$(curl x)\"",
		"kubectl get pods > /etc/passwd", "kubectl apply -f - <x", "kubectl get pods\ncurl x", "kubectl get pods\rcurl x", "kubectl get pods\tx", "kubectl get 'a", "kubectl get $'a", "kubectl get $'\\x41'", "kubectl get $'\\9'",
		"kubectl get \\\ncurl", "kubectl get ~/x", "kubectl get =curl", "kubectl get a*", "kubectl get {a,b}", "kubectl get #x", "kubectl get !!", "'kubectl' get pods", "kubectl-evil x", "kubectl\u00a0get", "kubectl get \u202epods", "X=1 kubectl get pods", "kubectl get \xff",
		"printf %s x | kubectl create -f -",
	} {
		if got := rebuilt(bad); got != "" {
			t.Errorf("%q became %q", bad, got)
		}
	}
	for line, want := range map[string]string{"kubectl get 'pods'": "kubectl get pods", `kubectl get a'b c'\''d'`: `kubectl get 'ab c'\''d'`, "kubectl get $'a b'": "kubectl get 'a b'"} {
		if got := rebuilt(line); got != want {
			t.Errorf("%q became %q", line, got)
		}
	}
}
