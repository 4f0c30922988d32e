package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// writeFile writes a file that only its owner can read. The file appears, or replaces an
// older one, only when all of it is on disk: after an error or an interrupt the older one is
// still there.
//
// It refuses a symbolic link, because the link may lead to a file that nobody named. It
// writes directly to anything that is not a regular file, such as a FIFO or /dev/stderr.
func writeFile(ctx context.Context, name string, write func(io.Writer) error) error {
	info, err := os.Lstat(name)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if stream := standardStream(name); stream != nil {
			return write(stream)
		}
		if info, err = os.Stat(name); err != nil || info.Mode().IsRegular() || info.IsDir() {
			return fmt.Errorf("cannot write %s: it is a symbolic link; name the file itself", name)
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = replaceFile(ctx, name, write)
	case err != nil:
	case info.IsDir():
		err = errors.New("it is a directory")
	case info.Mode().IsRegular():
		if err = mayWrite(name); err == nil {
			err = replaceFile(ctx, name, write)
		}
	default:
		err = writeThrough(name, write)
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", name, withoutPath(err))
	}
	return nil
}

// standardStream is the standard output or error if the link, such as /dev/stderr, leads
// there; nil otherwise. It may be a file that the shell has opened, and what others write
// there must stay.
func standardStream(link string) *os.File {
	target, err := os.Stat(link)
	if err != nil {
		return nil
	}
	for _, stream := range []*os.File{os.Stdout, os.Stderr} {
		if info, err := stream.Stat(); err == nil && os.SameFile(info, target) {
			return stream
		}
	}
	return nil
}

// mayWrite fails where the file's own permissions forbid writing to it. Replacing the file
// would need only those of its folder.
func mayWrite(name string) error {
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return file.Close()
}

// writeThrough writes to a device, a FIFO or a socket.
func writeThrough(name string, write func(io.Writer) error) error {
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil && info.Mode().IsRegular() {
		err = errors.New("it became another file in this moment")
	}
	if err == nil {
		err = write(file)
	}
	return errors.Join(err, file.Close())
}

// replaceFile writes a temporary file in the same folder and renames it.
func replaceFile(ctx context.Context, name string, write func(io.Writer) error) error {
	interrupts := interruptsOf(ctx)
	interrupts.hold()
	file, err := os.CreateTemp(filepath.Dir(name), ".volume-doctor-*.tmp") // its mode is 0600
	if err != nil {
		interrupts.release()
		return err
	}
	interrupts.setTemporary(file.Name(), true)
	interrupts.release()

	err = write(file)

	interrupts.hold()
	defer interrupts.release()
	defer interrupts.setTemporary(file.Name(), false)
	if err == nil {
		err = file.Sync()
	}
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		_ = os.Remove(file.Name()) // a leftover does no harm
		return err
	}
	syncFolder(name)
	return nil
}

// syncFolder puts the name of a new file on disk. Not every file system supports that.
func syncFolder(name string) {
	folder, err := os.Open(filepath.Dir(name))
	if err != nil {
		return
	}
	_ = folder.Sync()
	_ = folder.Close()
}

// withoutPath removes the path from the error, because the message has it already.
func withoutPath(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	if link, ok := errors.AsType[*os.LinkError](err); ok {
		return link.Err
	}
	return err
}
