// Command image makes the container image out of binaries that are built already, without
// a container engine: an OCI layout, to be pushed, and the same layout as one archive.
// The same binaries, notices and SOURCE_DATE_EPOCH make the same bytes.
//
//	SOURCE_DATE_EPOCH=SECONDS go run ./image -out FOLDER -version TAG -revision COMMIT BINARY...
//
// A binary is called PROGRAM_linux_ARCH, and is /PROGRAM in the image of its platform.
// FOLDER has to be there; layout and image.tar in it are replaced. The last line that is
// printed is the digest.
package main

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	// entrypoint is the path of the program that the image starts.
	entrypoint = "/kubectl-volume_doctor"
	// user is an ID that no user of a node has: the usual one of distroless images.
	user = "65532:65532"

	title       = "volume-doctor"
	description = "Finds out why Kubernetes volumes do not attach or detach"
	source      = "https://github.com/volume-doctor/kubectl-volume-doctor"
	licence     = "Apache-2.0"
)

// options are the options of the command, and the seconds of SOURCE_DATE_EPOCH.
type options struct{ out, root, version, revision, epoch string }

func main() {
	var o options
	flag.StringVar(&o.out, "out", "", "Write layout and image.tar into this folder")
	flag.StringVar(&o.root, "root", "..", "Take LICENSE and bin/NOTICES from this folder")
	flag.StringVar(&o.version, "version", "", "The version that the labels name")
	flag.StringVar(&o.revision, "revision", "", "The commit that the binaries are built from")
	flag.Parse()
	o.epoch = os.Getenv("SOURCE_DATE_EPOCH")
	if err := run(o, flag.Args(), os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "image: %v\n", err)
		os.Exit(1)
	}
}

func run(o options, binaries []string, stdout io.Writer) error {
	seconds, err := strconv.ParseInt(o.epoch, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	if len(binaries) == 0 || o.version == "" || o.revision == "" {
		return errors.New("a version, a commit and binaries have to be given")
	}
	created := time.Unix(seconds, 0).UTC()
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var labels map[string]string
	programs, err := byArchitecture(binaries, o.revision)
	if err != nil {
		return err
	}
	for _, architecture := range slices.Sorted(maps.Keys(programs)) {
		platform := &v1.Platform{OS: "linux", Architecture: architecture}
		var image v1.Image
		if image, labels, err = imageOf(programs[architecture], platform, o, created); err != nil {
			return fmt.Errorf("%s: %w", platform, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	index = mutate.Annotations(index, labels).(v1.ImageIndex)
	folder := filepath.Join(o.out, "layout")
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if _, err := layout.Write(folder, mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{Add: index})); err != nil {
		return err
	}
	if err := archive(filepath.Join(o.out, "image.tar"), folder, created); err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, digest)
	return err
}

// byArchitecture are the programs of each image. A binary itself shows its platform.
func byArchitecture(binaries []string, revision string) (map[string][]file, error) {
	programs := map[string][]file{}
	for _, binary := range binaries {
		architecture, err := architectureOf(binary, revision)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", binary, err)
		}
		name := strings.TrimSuffix(filepath.Base(binary), "_linux_"+architecture)
		programs[architecture] = append(programs[architecture], file{"/" + name, binary, 0o555})
	}
	for architecture, list := range programs {
		slices.SortFunc(list, func(a, b file) int { return strings.Compare(a.path, b.path) })
		if list[0].path != entrypoint {
			return nil, fmt.Errorf("%s: there is no %s to start", architecture, entrypoint)
		}
	}
	return programs, nil
}

// architectureOf is the architecture of the binary; it fails where the binary may not go into
// an image.
func architectureOf(binary, revision string) (string, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return "", err
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	for key, want := range map[string]string{"CGO_ENABLED": "0", "GOOS": "linux", "-trimpath": "true"} {
		if settings[key] != want {
			return "", fmt.Errorf("it is built with %s=%q, and has to be with %q", key, settings[key], want)
		}
	}
	// Go records no commit in a binary that is built in a further work tree of git.
	if r := settings["vcs.revision"]; r != "" && r != revision {
		return "", fmt.Errorf("it is built from commit %s, and not from %s", r, revision)
	}
	return settings["GOARCH"], nil
}

// imageOf makes the image of the programs for one platform.
func imageOf(programs []file, platform *v1.Platform, o options, created time.Time) (v1.Image, map[string]string, error) {
	labels := map[string]string{
		"org.opencontainers.image.title":       title,
		"org.opencontainers.image.description": description,
		"org.opencontainers.image.source":      source,
		"org.opencontainers.image.licenses":    licence,
		"org.opencontainers.image.version":     o.version,
		"org.opencontainers.image.revision":    o.revision,
		"org.opencontainers.image.created":     created.Format(time.RFC3339),
	}
	content, err := files(created, append(programs,
		file{"/LICENSE", filepath.Join(o.root, "LICENSE"), 0o444},
		file{"/NOTICES", filepath.Join(o.root, "bin", "NOTICES"), 0o444},
	))
	if err != nil {
		return nil, nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, nil, err
	}
	image, err := mutate.Append(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON),
		mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: created}, CreatedBy: "make image"}})
	if err != nil {
		return nil, nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, nil, err
	}
	config.Created = v1.Time{Time: created}
	config.OS, config.Architecture = platform.OS, platform.Architecture
	config.Config = v1.Config{User: user, Entrypoint: []string{entrypoint}, Labels: labels}
	image, err = mutate.ConfigFile(image, config)
	return image, labels, err
}

// file is the file at a path of the image.
type file struct {
	path, source string
	mode         int64
}

// files is a tar archive of files that root owns.
func files(created time.Time, list []file) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range list {
		text, err := os.ReadFile(f.source)
		if err != nil {
			return nil, err
		}
		if err := add(w, f.path[1:], f.mode, created, text); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), w.Close()
}

// archive writes the files of the folder, in the order of their names.
func archive(to, folder string, created time.Time) error {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		return add(w, filepath.ToSlash(name), 0o444, created, text)
	})
	if err := errors.Join(err, w.Close()); err != nil {
		return err
	}
	return os.WriteFile(to, b.Bytes(), 0o644)
}

func add(w *tar.Writer, name string, mode int64, created time.Time, text []byte) error {
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(text)), Mode: mode, ModTime: created, Format: tar.FormatUSTAR}); err != nil {
		return err
	}
	_, err := w.Write(text)
	return err
}
