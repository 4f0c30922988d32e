package backend

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// readAWS reads a volume of aws ec2 describe-volumes.
func readAWS(raw []byte) (Volume, string, error) {
	var d struct {
		VolumeID    string `json:"VolumeId"`
		State       string `json:"State"`
		Zone        string `json:"AvailabilityZone"`
		Shared      bool   `json:"MultiAttachEnabled"`
		Created     string `json:"CreateTime"`
		Size        number `json:"Size"`
		Tags        json.RawMessage
		Attachments *[]struct {
			Instance string `json:"InstanceId"`
			State    string `json:"State"`
			Time     string `json:"AttachTime"`
		} `json:"Attachments"`
	}
	if err := decode(raw, &d); err != nil {
		return Volume{}, "", err
	}
	v := Volume{ID: d.VolumeID, State: d.State, Shared: d.Shared, Silent: d.Attachments == nil && d.State != "available", Created: moment(d.Created), GiB: int64(d.Size)}
	v.MadeFor = madeFor(marks(d.Tags))
	if IsName(d.Zone) {
		v.Zone = d.Zone
	}
	if d.Attachments != nil {
		for _, a := range *d.Attachments {
			if a.State == "detached" {
				continue
			}
			if a.Instance == "" { // AWS itself attaches such a volume, to no machine of the user's
				v.Silent = true
				continue
			}
			v.Attachments = append(v.Attachments, Attachment{Machine: a.Instance, State: other(a.State, "attached"), Since: moment(a.Time)})
		}
	}
	if d.State == "available" && len(v.Attachments) > 0 || d.State == "in-use" && len(v.Attachments) == 0 {
		v.Silent = true // it is about to change
	}
	return v, d.Zone, nil
}

var scaleSetMachine = regexp.MustCompile(`(/virtualmachinescalesets/[^/]+/virtualmachines/)[^/]*_([0-9]+)$`)

// azureMachine is the path of a machine in one spelling. A scale set's machine ends in its
// number in a node's id, and in SET_NUMBER in a list of disks.
func azureMachine(path string) string {
	return scaleSetMachine.ReplaceAllString(strings.ToLower(path), "$1$2")
}

// readAzure reads a disk of az disk list.
func readAzure(raw []byte) (Volume, string, error) {
	var d struct {
		ID        string   `json:"id"`
		State     string   `json:"diskState"`
		By        *string  `json:"managedBy"`
		Extended  []string `json:"managedByExtended"`
		MaxShares int      `json:"maxShares"`
		Location  string   `json:"location"`
		Since     string   `json:"lastOwnershipUpdateTime"`
		Created   string   `json:"timeCreated"`
		// The tool and the API spell the field of the size differently.
		ToolSize number          `json:"diskSizeGb"`
		Size     number          `json:"diskSizeGB"`
		Tags     json.RawMessage `json:"tags"`
	}
	if err := decode(raw, &d); err != nil {
		return Volume{}, "", err
	}
	v := Volume{ID: Azure.Handle(d.ID), State: d.State, Shared: d.MaxShares > 1, Created: moment(d.Created), GiB: int64(max(d.Size, d.ToolSize)), MadeFor: madeFor(marks(d.Tags))}
	machines := d.Extended
	if d.By != nil && *d.By != "" {
		machines = append([]string{*d.By}, machines...)
	}
	seen := map[string]bool{}
	for _, m := range machines {
		if m = azureMachine(m); !seen[m] {
			seen[m] = true
			v.Attachments = append(v.Attachments, Attachment{Machine: m, Since: moment(d.Since)})
		}
	}
	if len(v.Attachments) == 0 {
		v.Detached = moment(d.Since)
	}
	// A Reserved disk is attached to a machine that is deallocated, and a frozen one to a machine
	// that hibernates. Where the state contradicts the machines, one of them is about to change,
	// or the machines were not asked for.
	switch strings.ToLower(d.State) {
	case "attached", "reserved", "frozen", "activesasfrozen":
		v.Silent = len(v.Attachments) == 0
	case "unattached":
		v.Silent = len(v.Attachments) > 0
	}
	return v, d.Location, nil
}

// readAzureAPI reads a disk as Azure's API shows it.
func readAzureAPI(raw []byte) (Volume, string, error) {
	var d struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	fields := map[string]json.RawMessage{}
	if err := decode(raw, &d); err != nil {
		return Volume{}, "", err
	}
	if err := decode(raw, &fields); err != nil {
		return Volume{}, "", err
	}
	for name, value := range d.Properties {
		if name == "LastOwnershipUpdateTime" {
			name = "lastOwnershipUpdateTime"
		}
		if _, ok := fields[name]; !ok {
			fields[name] = value
		}
	}
	delete(fields, "properties")
	flat, err := json.Marshal(fields)
	if err != nil {
		return Volume{}, "", err
	}
	return readAzure(flat)
}

// readCinder reads a volume as OpenStack's API shows it.
func readCinder(raw []byte) (Volume, string, error) {
	var d struct {
		ID       string          `json:"id"`
		State    string          `json:"status"`
		Attached json.RawMessage `json:"attachments"`
		Zone     string          `json:"availability_zone"`
		Created  string          `json:"created_at"`
		Size     number          `json:"size"`
		Metadata json.RawMessage `json:"metadata"`
	}
	if err := decode(raw, &d); err != nil {
		return Volume{}, "", err
	}
	text, err := json.Marshal(map[string]any{"ID": d.ID, "Status": d.State, "Attached to": d.Attached, "Size": d.Size, "Properties": d.Metadata})
	if err != nil {
		return Volume{}, "", err
	}
	v, _, err := readOpenStack(text)
	v.Created = moment(d.Created)
	return v, d.Zone, err
}

// readGoogle reads a disk of gcloud compute disks list.
func readGoogle(raw []byte) (Volume, string, error) {
	var d struct {
		Kind   string   `json:"kind"` // a list of single fields lacks it
		Link   string   `json:"selfLink"`
		State  string   `json:"status"`
		Users  []string `json:"users"`
		Access string   `json:"accessMode"`
		Since  string   `json:"lastAttachTimestamp"`
		Until  string   `json:"lastDetachTimestamp"`
		// The object for which it was made stands as JSON in the description, and the cluster
		// in the labels.
		About   string          `json:"description"`
		Labels  json.RawMessage `json:"labels"`
		Created string          `json:"creationTimestamp"`
		Size    number          `json:"sizeGb"`
	}
	if err := decode(raw, &d); err != nil {
		return Volume{}, "", err
	}
	id, ok := googlePath(d.Link)
	if !ok {
		return Volume{}, "", fmt.Errorf("selfLink %q names no disk", short(d.Link))
	}
	v := Volume{ID: id, State: d.State, Shared: strings.HasSuffix(d.Access, "_MANY"), Silent: d.Kind == "" && d.Users == nil, Created: moment(d.Created), GiB: int64(d.Size)}
	said := map[string]string{}
	maps.Copy(said, marks(json.RawMessage(d.About)))
	maps.Copy(said, marks(d.Labels))
	v.MadeFor = madeFor(said)
	for _, user := range d.Users {
		machine, ok := googlePath(user)
		if !ok {
			return Volume{}, "", fmt.Errorf("user %q names no instance", short(user))
		}
		a := Attachment{Machine: machine}
		if len(d.Users) == 1 {
			a.Since = moment(d.Since)
		}
		v.Attachments = append(v.Attachments, a)
	}
	if len(d.Users) == 0 {
		v.Detached = moment(d.Until)
	}
	scope, _, _ := strings.Cut(id, "/disks/")
	return v, scope, nil
}

// googlePath is the part of a resource's address after the version.
func googlePath(link string) (string, bool) {
	at := strings.Index(link, "projects/")
	if at < 0 || at > 0 && link[at-1] != '/' {
		return "", false
	}
	return link[at:], strings.Count(link[at:], "/") == 5
}

// attachedTo matches an attachment in the words of clients of 2018 and earlier. They print the
// server's name where they may list the servers, and then its id is not known.
var attachedTo = regexp.MustCompile(`Attached to ([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}) on \S+`)

// readOpenStack reads a volume of openstack volume list --long -f json.
func readOpenStack(raw []byte) (Volume, string, error) {
	var d struct {
		ID       string          `json:"ID"`
		State    string          `json:"Status"`
		Attached json.RawMessage `json:"Attached to"`
		Size     number          `json:"Size"`
		Marks    json.RawMessage `json:"Properties"`
	}
	if err := decode(raw, &d); err != nil {
		return Volume{}, "", err
	}
	v := Volume{ID: d.ID, State: d.State, GiB: int64(d.Size), MadeFor: madeFor(marks(d.Marks))}
	var machines []struct {
		Server *string `json:"server_id"`
		Since  string  `json:"attached_at"`
	}
	if bytes.HasPrefix(d.Attached, []byte(`"`)) {
		var text string
		if err := decode(d.Attached, &text); err != nil {
			return Volume{}, "", err
		}
		for _, server := range attachedTo.FindAllStringSubmatch(text, -1) {
			v.Attachments = append(v.Attachments, Attachment{Machine: server[1]})
		}
		v.Silent = strings.TrimSpace(attachedTo.ReplaceAllString(text, "")) != ""
	} else if err := decode(d.Attached, &machines); err != nil {
		return Volume{}, "", err
	}
	for _, m := range machines {
		if m.Server == nil || *m.Server == "" { // attached to a host, not to a server
			v.Silent = true
			continue
		}
		v.Attachments = append(v.Attachments, Attachment{Machine: *m.Server, Since: moment(m.Since)})
	}
	switch v.State {
	case "attaching", "detaching", "reserved":
		if len(v.Attachments) == 0 {
			v.Silent = true
		}
		for i := range v.Attachments {
			v.Attachments[i].State = v.State
		}
	case "available", "in-use":
		v.Silent = v.Silent || (v.State == "in-use") != (len(v.Attachments) > 0)
	}
	return v, "", nil
}

// readHetzner reads a volume of hcloud volume list -o json.
func readHetzner(raw []byte) (Volume, string, error) {
	var d struct {
		ID       json.Number `json:"id"`
		State    string      `json:"status"`
		Location struct {
			Name string `json:"name"`
		} `json:"location"`
		Server  json.RawMessage `json:"server"`
		Created string          `json:"created"`
		Size    number          `json:"size"`
		Labels  json.RawMessage `json:"labels"`
	}
	if err := decode(raw, &d); err != nil {
		return Volume{}, "", err
	}
	v := Volume{ID: d.ID.String(), State: d.State, Created: moment(d.Created), GiB: int64(d.Size), MadeFor: madeFor(marks(d.Labels))}
	switch server := strings.TrimSpace(string(d.Server)); {
	case server == "":
		v.Silent = true
	case server == "null":
	case server[0] == '{': // some releases print the whole server
		var s struct {
			ID json.Number `json:"id"`
		}
		if err := decode(d.Server, &s); err != nil {
			return Volume{}, "", err
		}
		v.Attachments = []Attachment{{Machine: s.ID.String()}}
	case strings.Trim(server, "0123456789") == "":
		v.Attachments = []Attachment{{Machine: server}}
	default:
		return Volume{}, "", fmt.Errorf("server %q is no number", short(server))
	}
	return v, d.Location.Name, nil
}

// readCSI reads an entry of a ListVolumesResponse, with the names of protobuf's JSON
// or with those of the specification.
func readCSI(raw []byte) (Volume, string, error) {
	var d struct {
		Volume struct {
			ID     string `json:"volumeId"`
			SpecID string `json:"volume_id"`
		} `json:"volume"`
		Status *struct {
			Nodes     []string `json:"publishedNodeIds"`
			SpecNodes []string `json:"published_node_ids"`
		} `json:"status"`
	}
	if err := decode(raw, &d); err != nil {
		return Volume{}, "", err
	}
	if d.Volume.ID != "" && d.Volume.SpecID != "" {
		return Volume{}, "", errors.New("both volumeId and volume_id")
	}
	v := Volume{ID: d.Volume.ID + d.Volume.SpecID, Silent: d.Status == nil}
	if d.Status != nil {
		for _, node := range append(d.Status.Nodes, d.Status.SpecNodes...) {
			v.Attachments = append(v.Attachments, Attachment{Machine: node})
		}
	}
	return v, "", nil
}

// failed matches the message of a tool that could not list the volumes.
var failed = regexp.MustCompile(`(?i)^(An error occurred \(|(fatal )?error: |[\w-]+: error: |\w*Exception: |Unable to locate credentials|HTTP 4\d\d\b|.* \(HTTP [45]\d\d\))`)

// readText reads two columns: the handle of a volume, and the machine or node that has it, or
// "-" where none has it.
func (l *List) readText(text []byte) error {
	l.Format = Text
	places := map[string]int{}
	for n, line := range strings.Split(string(text), "\n") {
		fields := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' || r == '\r' || r == ',' })
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) != 2 && failed.MatchString(line) {
			return fmt.Errorf("line %d: what a tool says when it fails, and no list: %s", n+1, short(line))
		}
		if len(fields) != 2 {
			return fmt.Errorf("line %d: %d columns, and not 2: the handle of a volume, and the machine or node that has it, or - for none; of a tool give the JSON (--output json, --format json)", n+1, len(fields))
		}
		if len(l.Volumes) >= MaxVolumes {
			return fmt.Errorf("line %d: more than %d volumes", n+1, MaxVolumes)
		}
		v := Volume{ID: fields[0]}
		if fields[1] != "-" {
			v.Attachments = []Attachment{{Machine: fields[1]}}
		}
		if err := v.check(); err != nil {
			return fmt.Errorf("line %d: %w", n+1, err)
		}
		// A volume that several machines have is on several lines.
		if at, ok := places[v.ID]; ok && len(v.Attachments) > 0 && len(l.Volumes[at].Attachments) > 0 {
			if len(l.Volumes[at].Attachments) == MaxAttachments {
				return fmt.Errorf("line %d: attached to more than %d machines", n+1, MaxAttachments)
			}
			l.Volumes[at].Attachments = append(l.Volumes[at].Attachments, v.Attachments...)
			continue
		}
		places[v.ID] = len(l.Volumes)
		l.Volumes = append(l.Volumes, v)
	}
	return nil
}

// number is a number that tools write with or without quotes; 0 for anything else.
type number int64

// UnmarshalJSON accepts any text, so that no list is refused for it.
func (n *number) UnmarshalJSON(text []byte) error {
	read, err := strconv.ParseInt(strings.Trim(string(text), `"`), 10, 32)
	if err == nil {
		*n = number(max(read, 0))
	}
	return nil
}

// other is the state, or "" where it is the usual one.
func other(state, usual string) string {
	if state == usual {
		return ""
	}
	if state == "" {
		return "unknown"
	}
	return state
}

// moment is a time in a list; nil where it cannot be read.
func moment(text string) *time.Time {
	// the times of OpenStack are in UTC, without a zone
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05.999999"} {
		if t, err := time.Parse(layout, text); err == nil {
			t = t.UTC()
			return &t
		}
	}
	return nil
}
