// Package gomodule has the files of other projects' modules, which no code here imports.
package gomodule

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Download returns the folder with the files of a module, such as
// "example.org/module@v1.2.3". Go's checksum database vouches for them.
func Download(ctx context.Context, module string) (dir string, err error) {
	work, err := os.MkdirTemp("", "gomodule-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(work) }() // nothing of it is used
	if err := os.WriteFile(filepath.Join(work, "go.mod"), []byte("module none\n"), 0o600); err != nil {
		return "", err
	}
	download := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	download.Dir = work
	download.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	text, err := download.Output()
	if err != nil {
		return "", fmt.Errorf("download %s: %w: %s", module, err, text)
	}
	var answer struct{ Dir string }
	if err := json.Unmarshal(text, &answer); err != nil {
		return "", fmt.Errorf("download %s: %w", module, err)
	}
	return answer.Dir, nil
}
