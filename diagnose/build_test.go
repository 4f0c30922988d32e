package diagnose

import "testing"

// TestFileLines: a look of this program reads the file of the report, and no other command does.
func TestFileLines(t *testing.T) {
	for file, flag := range map[string]string{"": "", "-": "", "my file.yaml": " '--filename=my file.yaml'"} {
		for command, want := range map[string]string{
			"kubectl volume-doctor trace pod/web-0 -n shop": "kubectl volume-doctor trace pod/web-0 -n shop" + flag,
			"kubectl describe pod/web-0 -n shop":            "kubectl describe pod/web-0 -n shop",
			"":                                              "",
		} {
			if (&Request{File: file}).address(&command); command != want {
				t.Errorf("%q: got %q, want %q", file, command, want)
			}
		}
	}
}
