package conformance

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed ahead/*.patch
var patchFiles embed.FS

// Patches are the upstream changes that no release has yet, by the number of their pull
// request. Each is written from the description of the pull request: files of the module
// k8s.io/kubernetes, each with the lines that are removed and those that are added, without
// context lines.
var Patches = func() map[string]string {
	all := map[string]string{}
	files, _ := patchFiles.ReadDir("ahead")
	for _, file := range files {
		text, _ := patchFiles.ReadFile("ahead/" + file.Name())
		all[strings.TrimSuffix(file.Name(), ".patch")] = string(text)
	}
	return all
}()

// with is the name of the release with a patch.
func (r Release) with(patch string) string {
	if patch == "" {
		return string(r)
	}
	return string(r) + "+" + patch
}

// patched adds to the arguments of go build an overlay of the patched files over those of the
// release. The go command accepts no overlay over its module cache, so that the module is
// read through a link beside the binaries, always the same one: the packages that no patch
// changes are compiled only once.
func (r Release) patched(ctx context.Context, root, patch string, args []string) ([]string, error) {
	const module = "k8s.io/kubernetes"
	modfile := filepath.Join("oracle", string(r)+".mod")
	// until the module is downloaded it has no directory
	if _, err := goCommand(ctx, root, "mod", "download", "-modfile="+modfile, module); err != nil {
		return nil, err
	}
	source, err := goCommand(ctx, root, "list", "-modfile="+modfile, "-m", "-f={{.Dir}}", module)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(root, "bin", "oracle", "patched", string(r))
	link := filepath.Join(dir, "kubernetes")
	err = errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755), os.Symlink(source, link))
	for _, end := range []string{".mod", ".sum"} {
		text, errRead := os.ReadFile(filepath.Join(root, "oracle", string(r)+end))
		if end == ".mod" {
			text = fmt.Appendf(text, "\nreplace %s => %s\n", module, link)
		}
		err = errors.Join(err, errRead, os.WriteFile(filepath.Join(dir, "oracle"+end), text, 0o644))
	}
	if err != nil {
		return nil, err
	}
	overlay := map[string]map[string]string{"Replace": {}}
	changes := parsePatch(Patches[patch])
	for i, file := range slices.Sorted(maps.Keys(changes)) {
		text, err := os.ReadFile(filepath.Join(source, file))
		if err != nil {
			return nil, err
		}
		fresh, err := apply(string(text), changes[file])
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", patch, file, err)
		}
		name := filepath.Join(dir, fmt.Sprintf("%d.patched", i))
		if err := os.WriteFile(name, []byte(fresh), 0o644); err != nil {
			return nil, err
		}
		overlay["Replace"][filepath.Join(link, file)] = name
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "overlay.json")
	return append(args, "-modfile="+filepath.Join(dir, "oracle.mod"), "-overlay="+file), os.WriteFile(file, text, 0o644)
}

// edit replaces some lines by others.
type edit struct{ old, fresh string }

// parsePatch returns the edits of a patch by file.
func parsePatch(patch string) map[string][]edit {
	edits := map[string][]edit{}
	var file string
	for line := range strings.Lines(patch) {
		name, isFile := strings.CutPrefix(line, "--- ")
		last := len(edits[file]) - 1
		switch {
		case isFile:
			file = strings.TrimSpace(name)
		case line == "@@\n":
			edits[file] = append(edits[file], edit{})
		case last >= 0 && line[0] == '-':
			edits[file][last].old += line[1:]
		case last >= 0 && line[0] == '+':
			edits[file][last].fresh += line[1:]
		}
	}
	return edits
}

// apply makes the edits. The removed lines must be in the text exactly once, so that a patch
// for another release fails.
func apply(text string, edits []edit) (string, error) {
	for _, e := range edits {
		var places []int
		for i := range text {
			if (i == 0 || text[i-1] == '\n') && strings.HasPrefix(text[i:], e.old) {
				places = append(places, i)
			}
		}
		if len(places) != 1 || e.old == "" {
			return "", fmt.Errorf("these lines are there %d times, not once:\n%s", len(places), e.old)
		}
		text = text[:places[0]] + e.fresh + text[places[0]+len(e.old):]
	}
	return text, nil
}
