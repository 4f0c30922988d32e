package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	mit = `MIT License

Copyright (c) 2026 Somebody

Permission is hereby granted, free of charge, to any person obtaining a copy of
this software and associated documentation files (the "Software"), to deal in the
Software without restriction, including without limitation the rights to use, copy,
modify, merge, publish, distribute, sublicense, and/or sell copies of the Software,
and to permit persons to whom the Software is furnished to do so, subject to the
following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED,
INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A
PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT
HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF
CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE
OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
`
	gpl = `This program is free software: you can redistribute it and/or modify it under the
terms of the GNU General Public License as published by the Free Software
Foundation, either version 3 of the License, or (at your option) any later version.

This program is distributed in the hope that it will be useful, but WITHOUT ANY
WARRANTY; without even the implied warranty of MERCHANTABILITY or FITNESS FOR A
PARTICULAR PURPOSE. See the GNU General Public License for more details.

You should have received a copy of the GNU General Public License along with this
program. If not, see <https://www.gnu.org/licenses/>.
`
	own = `You may use this software on Sundays, provided that you tell nobody, and that
whoever you do not tell agrees to these terms in writing, before noon.
`
)

func TestRead(t *testing.T) {
	for _, tc := range []struct {
		name    string
		files   map[string]string
		folders []string // compiled in, beside the root
		want    string   // in the error; "" for none
		notices int
	}{
		{name: "allowed", files: map[string]string{"LICENSE": mit}, notices: 1},
		{name: "spelt otherwise", files: map[string]string{"licence.md": mit}, notices: 1},
		{name: "with a notice", files: map[string]string{"LICENSE": mit, "NOTICE": own}, notices: 2},
		{name: "none", files: map[string]string{"README.md": mit}, want: "no licence in its root"},
		{name: "code by that name", files: map[string]string{"license.go": mit}, want: "no licence in its root"},
		{name: "only a notice", files: map[string]string{"NOTICE": mit}, want: "no licence in its root", notices: 1},
		{name: "empty", files: map[string]string{"LICENSE": ""}, want: "not recognized", notices: 1},
		{name: "not allowed", files: map[string]string{"LICENSE": gpl}, want: "GPL-3.0-or-later is not allowed", notices: 1},
		{name: "of their own", files: map[string]string{"LICENSE": own}, want: "not recognized", notices: 1},
		{name: "allowed, and more", files: map[string]string{"LICENSE": mit + strings.Repeat(own, 5)}, want: "not recognized", notices: 1},
		{name: "allowed and not allowed", files: map[string]string{"LICENSE": mit, "COPYING": gpl}, want: "COPYING: GPL", notices: 2},
		{name: "both in one file", files: map[string]string{"LICENSE": mit + "\n" + gpl}, want: "is not allowed", notices: 1},
		{
			name:    "forked code",
			files:   map[string]string{"LICENSE": mit, "third/LICENSE": gpl, "third/party/x.go": ""},
			folders: []string{"third/party"}, want: "third/LICENSE: GPL", notices: 2,
		},
		{
			name:  "forked code that is not compiled in",
			files: map[string]string{"LICENSE": mit, "third/LICENSE": gpl, "own/x.go": ""}, folders: []string{"own"}, notices: 1,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := module{path: "example.org/m", version: "v1.0.0", root: t.TempDir()}
			for name, text := range tc.files {
				file := filepath.Join(m.root, name)
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			for _, folder := range tc.folders {
				m.folders = append(m.folders, filepath.Join(m.root, folder))
			}
			notices, err := read(m)
			if len(notices) != tc.notices {
				t.Errorf("%d notices, want %d", len(notices), tc.notices)
			}
			switch {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}

// TestCommand reads the licences of the released commands themselves.
func TestCommand(t *testing.T) {
	var out strings.Builder
	if err := run([]string{"../..", "../../standing/kubectl-volume_doctor-serve"}, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"==== the Go library", "==== k8s.io/client-go ", "third_party/forked/golang/LICENSE (BSD-3-Clause)", "inconshreveable/mousetrap"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the notices lack %q", want)
		}
	}
}

func TestNothingIsNoAnswer(t *testing.T) {
	if err := run([]string{t.TempDir()}, &strings.Builder{}); err == nil {
		t.Error("a folder without a command passes")
	}
}
