package house

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
)

// TestUnusedMethodsAreLeftOut: no linked code looks up methods by a name that it reads at run
// time, as templates do. The linker would have to keep all methods of all API types, which
// costs each command 5 to 12 MB of memory (docs/adr/0022-pages-without-reflection.md).
func TestUnusedMethodsAreLeftOut(t *testing.T) {
	long.Test(t)
	for _, program := range programs {
		t.Run(program, func(t *testing.T) { unusedMethodsAreLeftOut(t, program) })
	}
}

// programs are the folders of the released programs.
var programs = []string{".", "./standing/kubectl-volume_doctor-serve"}

func unusedMethodsAreLeftOut(t *testing.T, program string) {
	var reached bytes.Buffer
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-dumpdep", "-o", filepath.Join(t.TempDir(), "volume-doctor"), program)
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as "make build" and a release
	build.Stderr = &reached
	if err := build.Run(); err != nil {
		t.Fatalf("%v: %s", err, reached.Bytes()[:min(reached.Len(), 2000)])
	}
	linked := false
	for line := range strings.Lines(reached.String()) {
		linked = linked || strings.HasPrefix(line, "main.main -> ")
		if by, _, keeps := strings.Cut(line, " <ReflectMethod>"); keeps {
			t.Fatalf("the linker keeps the methods of all types: %s", by)
		}
	}
	if !linked {
		t.Error("the linker did not say what it reached")
	}
}

// TestNoTypedClients: the programs do not link clients of all API groups. The first build
// waits for each package, and those would be 270 more. The plug-in also does not link what
// only serve needs.
func TestNoTypedClients(t *testing.T) {
	for program, most := range map[string]int{programs[0]: 740, programs[1]: 755} {
		t.Run(program, func(t *testing.T) { noTypedClients(t, program, most) })
	}
}

func noTypedClients(t *testing.T, program string, most int) {
	list := exec.Command("go", "list", "-deps", program)
	list.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(out))
	if len(packages) > most {
		t.Errorf("%d packages are linked, more than %d: does the newcomer pay for itself?", len(packages), most)
	}
	for _, path := range packages {
		forServe := strings.HasPrefix(path, "github.com/prometheus/client_golang") || path == module+"/standing"
		if strings.HasPrefix(path, "k8s.io/client-go/kubernetes/typed/") || forServe && program == "." {
			t.Errorf("%s is linked", path)
		}
	}
}
