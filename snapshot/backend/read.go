package backend

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	kjson "sigs.k8s.io/json"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/archive"
)

// A list comes from a stranger's ticket as often as from one's own storage system, so the
// memory that it can cost is bounded.
const (
	// MaxSize bounds the text of one list, after unpacking: some 50,000 volumes in the most
	// verbose tool's output.
	MaxSize = 64 << 20
	// MaxVolumes bounds the volumes of one list.
	MaxVolumes = 200_000
	// MaxAttachments bounds the machines of one volume: no storage system attaches one to so
	// many.
	MaxAttachments = 1000
	// maxVolume bounds the text of one volume.
	maxVolume = 256 << 10
	// maxName bounds a handle: CSI allows 128 bytes, and some drivers take more.
	maxName = 2048
)

// Read reads a list, also one that is packed with gzip or xz, and recognises its format by
// the text. The name is for messages. Every error is one line that says where.
func Read(name string, r io.Reader, taken time.Time) (*List, error) {
	l := &List{File: name, Taken: taken.UTC()}
	text, files, err := archive.Open(r, archive.Limits{Unpacked: MaxSize, Files: 1})
	if err != nil {
		return nil, err
	}
	if files != nil {
		return nil, errors.New("an archive of files: give the list itself")
	}
	all, err := io.ReadAll(text)
	if err != nil {
		return nil, err
	}
	if archive.IsUTF16(all) {
		if all, err = io.ReadAll(archive.FromUTF16(bytes.NewReader(all))); err != nil {
			return nil, err
		}
	}
	all = bytes.TrimPrefix(all, []byte("\xef\xbb\xbf"))
	switch first := bytes.TrimLeft(all, " \t\r\n"); {
	case len(first) == 0:
		return nil, errors.New("it is empty: a tool that finds no volume prints an empty list")
	case first[0] == '{' || first[0] == '[':
		err = l.readJSON(all)
	case isYAML(all):
		if all, err = fromYAML(all); err == nil {
			err = l.readJSON(all)
		}
	default:
		err = l.readText(all)
	}
	if err != nil {
		return nil, err
	}
	// A known field without volumes shows the format; any other text without volumes is
	// refused.
	if len(l.Volumes) == 0 && !slices.ContainsFunc(readers, func(r reader) bool { return r.format == l.Format }) {
		return nil, errors.New("no volume in it")
	}
	l.Sort()
	l.Mixed = slices.ContainsFunc(l.Volumes, func(v Volume) bool { return len(v.Attachments) > 0 }) &&
		slices.ContainsFunc(l.Volumes, func(v Volume) bool { return !v.Silent && len(v.Attachments) == 0 })
	return l, nil
}

// FormatOf is the format of a list in JSON, or of a list that would have this volume; ""
// where it is neither.
func FormatOf(text []byte) Format {
	for _, text := range [][]byte{text, slices.Concat([]byte("["), text, []byte("]"))} {
		if l := new(List); l.readJSON(text) == nil && l.Format != "" {
			return l.Format
		}
	}
	return ""
}

// reader describes how lists of one format are read.
type reader struct {
	format Format
	// list is the field with the volumes; "" where the list is the whole text.
	list string
	// more is the field with the beginning of the next page.
	more string
	// marks are fields of a volume that no other format has together.
	marks []string
	// volume reads one volume; scope is its region, zone or project; "" where the list does
	// not name it.
	volume func(raw []byte) (v Volume, scope string, err error)
}

var readers = []reader{
	{AWS, "Volumes", "NextToken", []string{"VolumeId"}, readAWS},
	{CSI, "entries", "nextToken", []string{"volume"}, readCSI},
	{CSI, "entries", "next_token", []string{"volume"}, readCSI},
	{Azure, "", "", []string{"id", "diskState"}, readAzure},
	{Azure, "value", "nextLink", []string{"id", "diskState"}, readAzure},
	{Azure, "value", "nextLink", []string{"id", "properties"}, readAzureAPI},
	{Google, "", "", []string{"selfLink", "sizeGb"}, readGoogle},
	{OpenStack, "", "", []string{"ID", "Attached to"}, readOpenStack},
	{OpenStack, "volumes", "volumes_links", []string{"id", "status", "attachments"}, readCinder},
	{Hetzner, "", "", []string{"id", "linux_device"}, readHetzner},
	{Hetzner, "volumes", "", []string{"id", "linux_device"}, readHetzner},
}

// errUnknown is the error about JSON that is not a list of a known format.
var errUnknown = errors.New("not a list of volumes that is read: those are the JSON of aws ec2 describe-volumes, az disk list, gcloud compute disks list, " +
	"openstack volume list --long, hcloud volume list and CSI's ListVolumes, of kubectl get with the objects of Longhorn, Trident, LINSTOR, cStor or Jiva, and two columns of text")

// errWhose is the error about an empty list that several tools print alike.
var errWhose = errors.New("an empty list, and nothing in it says which storage system has no volumes: leave it out, or give the list of a tool that names its field, as aws, CSI and Azure's API do")

// stream reads the items of a JSON text one after the other, and says where it is.
type stream struct {
	*json.Decoder
	text []byte
}

func (s stream) errorf(format string, args ...any) error {
	return fmt.Errorf("line %d: %w", 1+bytes.Count(s.text[:s.InputOffset()], []byte("\n")), fmt.Errorf(format, args...))
}

// next is the next token.
func (s stream) next() (json.Token, error) {
	token, err := s.Token()
	if err != nil {
		return nil, s.errorf("%w", syntax(err))
	}
	return token, nil
}

// syntax explains an early end of the text to people.
func syntax(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the text ends in the middle of the list")
	}
	return err
}

func (l *List) readJSON(text []byte) error {
	s := stream{json.NewDecoder(bytes.NewReader(text)), text}
	begin, err := s.next()
	if err != nil {
		return err
	}
	if begin == json.Delim('[') {
		err = l.readItems(s, "")
	} else {
		err = l.readFields(s)
	}
	if err != nil {
		return err
	}
	if l.Format == "" && len(l.Volumes) == 0 {
		return errUnknown
	}
	if _, err := s.Token(); !errors.Is(err, io.EOF) {
		return s.errorf("more text behind the list")
	}
	l.unsaid()
	return nil
}

// readFields reads an object with the list in one of its fields.
func (l *List) readFields(s stream) error {
	seen := map[string]bool{}
	for s.More() {
		key, err := s.next()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		if seen[name] {
			return s.errorf("a second field %q", short(name))
		}
		seen[name] = true
		ofObjects := name == "items"
		if !ofObjects && !slices.ContainsFunc(readers, func(r reader) bool { return r.list != "" && r.list == name }) {
			var value json.RawMessage
			if err := s.Decode(&value); err != nil {
				return s.errorf("%w", syntax(err))
			}
			if slices.ContainsFunc(readers, func(r reader) bool { return r.more != "" && r.more == name }) && !slices.Contains([]string{`""`, "null", "[]"}, string(value)) ||
				name == "metadata" && hasMore(value) || name == "meta" && hasNextPage(value) {
				l.Partial = true
			}
			if len(seen) > MaxAttachments {
				return errUnknown
			}
			continue
		}
		begin, err := s.next()
		if err != nil {
			return err
		}
		if begin != json.Delim('[') {
			return s.errorf("%s is no list", name)
		}
		read := l.readItems
		if ofObjects {
			read = l.readObjects
		}
		if err := read(s, name); err != nil {
			return err
		}
		if l.Format == "" && !ofObjects {
			l.Format = formatOf(name)
		}
	}
	_, err := s.next()
	return err
}

// formatOf is the only format that has its list in this field; "" where several have.
func formatOf(list string) (of Format) {
	for _, r := range readers {
		if r.list != list {
			continue
		}
		if of != "" && of != r.format {
			return ""
		}
		of = r.format
	}
	return of
}

// hasNextPage reports whether Hetzner's API has more volumes.
func hasNextPage(meta []byte) bool {
	var m struct {
		Pagination struct {
			Next *int `json:"next_page"`
		} `json:"pagination"`
	}
	return json.Unmarshal(meta, &m) == nil && m.Pagination.Next != nil
}

// readItems reads the volumes in the field, after its "[".
func (l *List) readItems(s stream, field string) error {
	var read *reader
	for n := 1; s.More(); n++ {
		var raw json.RawMessage
		if err := s.Decode(&raw); err != nil {
			return s.errorf("volume %d: %w", n, syntax(err))
		}
		if n > MaxVolumes {
			return s.errorf("more than %d volumes", MaxVolumes)
		}
		if len(raw) > maxVolume {
			return s.errorf("volume %d: more than %d KiB", n, maxVolume>>10)
		}
		if read == nil {
			if read = readerOf(field, raw); read == nil || l.Format != "" {
				return errUnknown
			}
			l.Format = read.format
		}
		v, scope, err := read.volume(raw)
		if err == nil {
			err = v.check()
		}
		if err != nil {
			return s.errorf("volume %d: %w", n, err)
		}
		if scope != "" && !slices.Contains(l.Scope, scope) && IsName(scope) {
			l.Scope = append(l.Scope, scope)
		}
		l.Volumes = append(l.Volumes, v)
	}
	_, err := s.next()
	if err == nil && read == nil && l.Format == "" && formatOf(field) == "" {
		return errWhose
	}
	return err
}

// readerOf returns the reader for a list whose first volume is raw, or nil.
func readerOf(field string, raw []byte) *reader {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return nil
	}
	for i, r := range readers {
		named := field == r.list || field == "" && r.format == AWS // as with --query Volumes
		if named && !slices.ContainsFunc(r.marks, func(mark string) bool { _, has := fields[mark]; return !has }) {
			return &readers[i]
		}
	}
	return nil
}

// unsaid makes all volumes silent where the list has no attachment at all, and may have been made
// without them: a CSI driver that cannot list attachments leaves the field out, and so does gcloud
// with a --format of single fields.
func (l *List) unsaid() {
	attached := slices.ContainsFunc(l.Volumes, func(v Volume) bool { return len(v.Attachments) > 0 })
	for i := range l.Volumes {
		v := &l.Volumes[i]
		if l.Format == CSI {
			v.Silent = v.Silent || !attached
		}
		if l.Format == Google {
			v.Silent = v.Silent && !attached
		}
	}
}

// decode reads one volume. A field that occurs twice is an error: nobody can tell which
// counts.
func decode(raw []byte, into any) error {
	strict, err := kjson.UnmarshalStrict(raw, into, kjson.DisallowDuplicateFields)
	if err != nil {
		return errors.New(short(err.Error()))
	}
	if len(strict) > 0 {
		return errors.New(short(strict[0].Error()))
	}
	return nil
}

func (v Volume) check() error {
	if !IsName(v.ID) {
		return fmt.Errorf("%q is no id of a volume", short(v.ID))
	}
	if len(v.Attachments) > MaxAttachments {
		return fmt.Errorf("attached to more than %d machines", MaxAttachments)
	}
	for _, a := range v.Attachments {
		if !IsName(a.Machine) {
			return fmt.Errorf("volume %s is attached to %q, which is no machine", v.ID, short(a.Machine))
		}
	}
	if len(v.Only) > MaxAttachments {
		return fmt.Errorf("volume %s is placed on more than %d machines", v.ID, MaxAttachments)
	}
	for _, machine := range v.Only {
		if !IsName(machine) {
			return fmt.Errorf("volume %s is placed on %q, which is no machine", v.ID, short(machine))
		}
	}
	return nil
}

// IsName reports whether the text can be a name at a storage system.
func IsName(s string) bool {
	return s != "" && len(s) <= maxName && utf8.ValidString(s) &&
		!strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) })
}

// short is a file's text, shortened for a message.
func short(s string) string {
	const most = 100
	s = strings.ToValidUTF8(s, "?")
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "..."
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}
