package backend

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// The outputs of the tools, shortened by fields that nothing reads.
const (
	awsText = `{
    "Volumes": [
        {
            "AvailabilityZone": "us-east-1a",
            "Attachments": [
                {
                    "AttachTime": "2026-11-18T21:03:57+00:00",
                    "InstanceId": "i-1234567890abcdef0",
                    "VolumeId": "vol-049df61146c4d7901",
                    "State": "attached",
                    "DeleteOnTermination": false,
                    "Device": "/dev/xvdba"
                }
            ],
            "Encrypted": true,
            "VolumeType": "gp3",
            "VolumeId": "vol-049df61146c4d7901",
            "State": "in-use",
            "MultiAttachEnabled": false,
            "CreateTime": "2026-11-18T21:03:57.000Z",
            "Tags": [{"Key": "CSIVolumeName", "Value": "pvc-1"}],
            "Size": 8
        },
        {
            "AvailabilityZone": "us-east-1b",
            "Attachments": [],
            "VolumeId": "vol-1234567890abcdef0",
            "State": "available",
            "Size": 8
        }
    ]
}`
	azureText = `[
  {
    "diskSizeGB": 127,
    "diskState": "Attached",
    "id": "/subscriptions/DB4E2FDB-6d80-4e6e-b7cd-736098270664/resourceGroups/MC_rg/providers/Microsoft.Compute/disks/pvc-1",
    "lastOwnershipUpdateTime": "2026-11-19T10:00:00+00:00",
    "location": "eastus",
    "managedBy": "/subscriptions/db4e2fdb-6d80-4e6e-b7cd-736098270664/resourceGroups/MC_rg/providers/Microsoft.Compute/virtualMachineScaleSets/aks-pool/virtualMachines/0",
    "managedByExtended": null,
    "maxShares": null,
    "name": "pvc-1",
    "type": "Microsoft.Compute/disks",
    "zones": ["1"]
  },
  {
    "diskState": "Unattached",
    "id": "/subscriptions/db4e2fdb-6d80-4e6e-b7cd-736098270664/resourceGroups/newrgmd1/providers/Microsoft.Compute/disks/NewManagedDisk1",
    "lastOwnershipUpdateTime": "2026-11-19T11:00:00+00:00",
    "location": "eastus",
    "managedBy": null,
    "managedByExtended": null,
    "maxShares": 2,
    "name": "NewManagedDisk1"
  }
]`
	googleText = `[
  {
    "creationTimestamp": "2026-01-30T02:46:06.251-08:00",
    "id": "7117026553513426",
    "kind": "compute#disk",
    "lastAttachTimestamp": "2026-11-19T02:46:06.251-08:00",
    "lastDetachTimestamp": "2026-11-18T02:46:06.251-08:00",
    "name": "pvc-1",
    "selfLink": "https://www.googleapis.com/compute/v1/projects/my-project/zones/us-central1-a/disks/pvc-1",
    "sizeGb": "10",
    "status": "READY",
    "users": ["https://www.googleapis.com/compute/v1/projects/my-project/zones/us-central1-a/instances/gke-1"],
    "zone": "https://www.googleapis.com/compute/v1/projects/my-project/zones/us-central1-a"
  },
  {
    "kind": "compute#disk",
    "lastAttachTimestamp": "2026-11-19T02:46:06.251-08:00",
    "lastDetachTimestamp": "2026-11-19T03:46:06.251-08:00",
    "name": "pvc-2",
    "selfLink": "https://www.googleapis.com/compute/v1/projects/my-project/regions/us-central1/disks/pvc-2",
    "sizeGb": "10",
    "status": "READY"
  }
]`
	openStackText = `[
  {
    "ID": "d8b7c9a2-4b0c-4b0e-9b1e-0c2f1f0b0001",
    "Name": "pvc-1",
    "Status": "in-use",
    "Size": 10,
    "Type": "ceph",
    "Bootable": "false",
    "Attached to": [
      {
        "id": "d8b7c9a2-4b0c-4b0e-9b1e-0c2f1f0b0001",
        "attachment_id": "fd3ec1a5-2b7d-4b4c-9a0e-3f1d2c3b4a5f",
        "volume_id": "d8b7c9a2-4b0c-4b0e-9b1e-0c2f1f0b0001",
        "server_id": "0785ee80-1eca-426b-b8c4-5b499fc7f614",
        "host_name": null,
        "device": "/dev/vdb",
        "attached_at": "2026-11-19T10:00:00.000000"
      }
    ],
    "Properties": {"attached_mode": "rw"}
  },
  {"ID": "d8b7c9a2-4b0c-4b0e-9b1e-0c2f1f0b0002", "Name": "pvc-2", "Status": "available", "Attached to": [], "Properties": {}},
  {"ID": "d8b7c9a2-4b0c-4b0e-9b1e-0c2f1f0b0003", "Name": "pvc-3", "Status": "reserved", "Attached to": [], "Properties": {}},
  {"ID": "d8b7c9a2-4b0c-4b0e-9b1e-0c2f1f0b0004", "Name": "pvc-4", "Status": "in-use", "Attached to": "Attached to worker-1 on /dev/vdb ", "Properties": {}}
]`
	hetznerText = `[
  {
    "id": 4711,
    "name": "pvc-1",
    "server": 38976603,
    "status": "available",
    "location": {"id": 1, "name": "fsn1", "network_zone": "eu-central"},
    "size": 42,
    "format": "ext4",
    "linux_device": "/dev/disk/by-id/scsi-0HC_Volume_4711",
    "labels": {},
    "protection": {"delete": false},
    "created": "2026-01-30T23:50:11Z"
  },
  {"id": 4712, "server": null, "status": "available", "location": {"name": "nbg1"}, "linux_device": "/dev/disk/by-id/scsi-0HC_Volume_4712"}
]`
	csiText = `{
  "entries": [
    {"volume": {"capacityBytes": "1073741824", "volumeId": "vol-a"}, "status": {"publishedNodeIds": ["node-2", "node-1"]}},
    {"volume": {"volumeId": "vol-b"}, "status": {}},
    {"volume": {"volumeId": "vol-c"}}
  ],
  "nextToken": "3"
}`
	twoColumns = `# volume  machine
vol-1	i-1
vol-2, i-2
vol-2  i-3
vol-3  -
`
)

func read(t testing.TB, text string) *List {
	t.Helper()
	l, err := Read("list", strings.NewReader(text), noon)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func at(text string) *time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	t = t.UTC()
	return &t
}

// TestFormats: each tool's own output shows which volume is attached to which machine.
func TestFormats(t *testing.T) {
	const azure, path = "/subscriptions/db4e2fdb-6d80-4e6e-b7cd-736098270664/resourcegroups/", "/providers/microsoft.compute/"
	for _, row := range []struct {
		text string
		want List
	}{
		{awsText, List{Format: AWS, Mixed: true, Scope: []string{"us-east-1a", "us-east-1b"}, Volumes: []Volume{
			{ID: "vol-049df61146c4d7901", Zone: "us-east-1a", State: "in-use", MadeFor: &MadeFor{PersistentVolume: "pvc-1"}, Created: at("2026-11-18T21:03:57Z"), GiB: 8, Attachments: []Attachment{{Machine: "i-1234567890abcdef0", Since: at("2026-11-18T21:03:57Z")}}},
			{ID: "vol-1234567890abcdef0", Zone: "us-east-1b", State: "available", GiB: 8},
		}}},
		{azureText, List{Format: Azure, Mixed: true, Scope: []string{"eastus"}, Volumes: []Volume{
			{ID: azure + "mc_rg" + path + "disks/pvc-1", State: "Attached", GiB: 127, Attachments: []Attachment{
				{Machine: azure + "mc_rg" + path + "virtualmachinescalesets/aks-pool/virtualmachines/0", Since: at("2026-11-19T10:00:00Z")},
			}},
			{ID: azure + "newrgmd1" + path + "disks/newmanageddisk1", State: "Unattached", Shared: true, Detached: at("2026-11-19T11:00:00Z")},
		}}},
		{googleText, List{Format: Google, Mixed: true, Scope: []string{"projects/my-project/regions/us-central1", "projects/my-project/zones/us-central1-a"}, Volumes: []Volume{
			{ID: "projects/my-project/regions/us-central1/disks/pvc-2", State: "READY", GiB: 10, Detached: at("2026-11-19T11:46:06.251Z")},
			{ID: "projects/my-project/zones/us-central1-a/disks/pvc-1", State: "READY", Created: at("2026-01-30T10:46:06.251Z"), GiB: 10, Attachments: []Attachment{
				{Machine: "projects/my-project/zones/us-central1-a/instances/gke-1", Since: at("2026-11-19T10:46:06.251Z")},
			}},
		}}},
		{openStackText, List{Format: OpenStack, Mixed: true, Volumes: []Volume{
			{ID: "d8b7c9a2-4b0c-4b0e-9b1e-0c2f1f0b0001", State: "in-use", GiB: 10, Attachments: []Attachment{
				{Machine: "0785ee80-1eca-426b-b8c4-5b499fc7f614", Since: at("2026-11-19T10:00:00Z")},
			}},
			{ID: "d8b7c9a2-4b0c-4b0e-9b1e-0c2f1f0b0002", State: "available"},
			{ID: "d8b7c9a2-4b0c-4b0e-9b1e-0c2f1f0b0003", State: "reserved", Silent: true},
			{ID: "d8b7c9a2-4b0c-4b0e-9b1e-0c2f1f0b0004", State: "in-use", Silent: true},
		}}},
		{hetznerText, List{Format: Hetzner, Mixed: true, Scope: []string{"fsn1", "nbg1"}, Volumes: []Volume{
			{ID: "4711", State: "available", Created: at("2026-01-30T23:50:11Z"), GiB: 42, Attachments: []Attachment{{Machine: "38976603"}}},
			{ID: "4712", State: "available"},
		}}},
		{csiText, List{Format: CSI, Partial: true, Mixed: true, Volumes: []Volume{
			{ID: "vol-a", Attachments: []Attachment{{Machine: "node-1"}, {Machine: "node-2"}}}, {ID: "vol-b"}, {ID: "vol-c", Silent: true},
		}}},
		{twoColumns, List{Format: Text, Mixed: true, Volumes: []Volume{
			{ID: "vol-1", Attachments: []Attachment{{Machine: "i-1"}}},
			{ID: "vol-2", Attachments: []Attachment{{Machine: "i-2"}, {Machine: "i-3"}}},
			{ID: "vol-3"},
		}}},
	} {
		row.want.File, row.want.Taken = "list", noon
		if diff := cmp.Diff(&row.want, read(t, row.text)); diff != "" {
			t.Errorf("%s:\n%s", row.want.Format, diff)
		}
		crlf := strings.ReplaceAll(row.text, "\n", "\r\n")
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, _ = w.Write([]byte("\xef\xbb\xbf" + crlf))
		_ = w.Close()
		if diff := cmp.Diff(&row.want, read(t, packed.String())); diff != "" {
			t.Errorf("%s, packed, from Windows:\n%s", row.want.Format, diff)
		}
	}
}

// TestMadeFor: each tool's list shows for which object a provisioner made a disk, by its
// driver's keys, and for which cluster; for any other disk it shows neither. A field of
// another form makes no list fail.
func TestMadeFor(t *testing.T) {
	const pv, claim, namespace = `kubernetes.io/created-for/pv/name`, `kubernetes.io/created-for/pvc/name`, `kubernetes.io/created-for/pvc/namespace`
	of := func(cluster string) *MadeFor { return &MadeFor{"pvc-1", "shop/data", cluster} }
	aws := func(tags string) string { return `{"Volumes": [{"VolumeId": "v", "Tags": ` + tags + `}]}` }
	tag := func(key, value string) string { return `{"Key": "` + key + `", "Value": "` + value + `"}` }
	named := tag(pv, "pvc-1") + "," + tag(claim, "data") + "," + tag(namespace, "shop")
	google := func(about, labels string) string {
		return `[{"selfLink": "https://x/projects/p/zones/z/disks/d", "sizeGb": "1", "description": ` + about + `, "labels": ` + labels + `}]`
	}
	for name, row := range map[string]struct {
		text string
		want *MadeFor
	}{
		"aws":                          {aws("[" + named + "," + tag("kubernetes.io/cluster/prod", "owned") + "]"), of("prod")},
		"aws, of two clusters":         {aws("[" + named + "," + tag("kubernetes.io/cluster/b", "shared") + "," + tag("kubernetes.io/cluster/a", "owned") + "]"), of("a")},
		"aws, KubernetesCluster":       {aws("[" + named + "," + tag("KubernetesCluster", "prod") + "]"), of("prod")},
		"aws, no cluster":              {aws("[" + named + "]"), of("")},
		"aws, a root disk":             {aws("[" + tag("kubernetes.io/cluster/prod", "owned") + "," + tag("Name", "node-1") + "]"), nil},
		"aws, no tags":                 {aws("null"), nil},
		"aws, tags as an object":       {aws(`{"` + pv + `": "pvc-1", "` + claim + `": "data", "` + namespace + `": "shop"}`), of("")},
		"aws, tags as text":            {aws(`"x"`), nil},
		"aws, a hostile name":          {aws("[" + tag(pv, `pvc\u001b[2J`) + "]"), nil},
		"azure":                        {`[{"id": "/x/providers/d", "diskState": "Unattached", "tags": {"kubernetes.io-created-for-pv-name": "pvc-1", "kubernetes.io-created-for-pvc-name": "data", "kubernetes.io-created-for-pvc-namespace": "shop"}}]`, of("")},
		"google":                       {google(`"{\"`+pv+`\":\"pvc-1\",\"`+claim+`\":\"data\",\"`+namespace+`\":\"shop\"}"`, `{"goog-k8s-cluster-name": "prod"}`), of("prod")},
		"google, somebody's own words": {google(`"the \"database\""`, `null`), nil},
		"openstack":                    {`[{"ID": "u", "Attached to": [], "Properties": {"csi.storage.k8s.io/pv/name": "pvc-1", "csi.storage.k8s.io/pvc/name": "data", "csi.storage.k8s.io/pvc/namespace": "shop", "cinder.csi.openstack.org/cluster": "prod"}}]`, of("prod")},
		"openstack, the cluster alone": {`[{"ID": "u", "Attached to": [], "Properties": {"cinder.csi.openstack.org/cluster": "prod"}}]`, &MadeFor{Cluster: "prod"}},
		"openstack, a cluster unnamed": {`[{"ID": "u", "Attached to": [], "Properties": {"cinder.csi.openstack.org/cluster": "kubernetes"}}]`, &MadeFor{}},
		"openstack, anybody's":         {`[{"ID": "u", "Attached to": [], "Properties": {"x": "y"}}]`, nil},
		"aws, the driver alone":        {aws("[" + tag("CSIVolumeName", "pvc-1") + "," + tag("ebs.csi.aws.com/cluster", "true") + "]"), &MadeFor{PersistentVolume: "pvc-1"}},
		"openstack's API":              {`{"volumes": [{"id": "u", "status": "available", "attachments": [], "size": "x", "metadata": {"csi.storage.k8s.io/pv/name": "pvc-1", "csi.storage.k8s.io/pvc/name": "data", "csi.storage.k8s.io/pvc/namespace": "shop"}}]}`, of("")},
		"hetzner":                      {`[{"id": 1, "linux_device": "x", "server": null, "labels": {"pv-name": "pvc-1", "pvc-name": "data", "pvc-namespace": "shop", "managed-by": "csi-driver"}}]`, of("")},
		"longhorn":                     {`{"items": [{"apiVersion": "longhorn.io/v1beta2", "kind": "Volume", "metadata": {"name": "v"}, "spec": {"accessMode": "rwo"}, "status": {"state": "detached", "kubernetesStatus": {"pvName": "pvc-1", "pvcName": "data", "namespace": "shop"}}}]}`, of("")},
		"longhorn, made in its page":   {`{"items": [{"apiVersion": "longhorn.io/v1beta2", "kind": "Volume", "metadata": {"name": "v"}, "spec": {"accessMode": "rwo"}, "status": {"state": "detached", "kubernetesStatus": {"pvName": "", "pvcName": "", "namespace": ""}}}]}`, nil},
	} {
		if diff := cmp.Diff(row.want, read(t, row.text).Volumes[0].MadeFor); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestUnsettled: a volume that is about to change, or whose attachments are not shown, counts
// neither as attached nor as detached.
func TestUnsettled(t *testing.T) {
	aws := func(fields string) string { return `{"Volumes": [{"VolumeId": "vol-1", ` + fields + `}]}` }
	azure := func(fields string) string { return `[{"id": "/subscriptions/s/disks/d", ` + fields + `}]` }
	openStack := func(fields string) string { return `[{"ID": "u", ` + fields + `}]` }
	for name, text := range map[string]string{
		"aws detaching":                     aws(`"Attachments": [{"InstanceId": "i-1", "State": "detaching"}]`),
		"aws busy":                          aws(`"Attachments": [{"InstanceId": "i-1", "State": "busy"}]`),
		"aws without the attachment's word": aws(`"Attachments": [{"InstanceId": "i-1"}]`),
		"aws, a query without attachments":  aws(`"State": "in-use"`),
		"aws, a query for the ids alone":    aws(`"Size": 10`),
		"aws, available with a machine":     aws(`"State": "available", "Attachments": [{"InstanceId": "i-1", "State": "attached"}]`),
		"aws, in use by nobody":             aws(`"State": "in-use", "Attachments": []`),
		"aws, attached by AWS itself":       aws(`"Attachments": [{"State": "attached", "AssociatedResource": "arn:x"}]`),
		"azure, attached to nothing":        azure(`"diskState": "Attached", "managedBy": null`),
		"azure, unattached from a machine":  azure(`"diskState": "Unattached", "managedBy": "/subscriptions/s/vm"`),
		"azure, frozen without a machine":   azure(`"diskState": "Frozen"`),
		"google, single fields":             `[{"selfLink": "https://x/projects/p/zones/z/disks/d", "sizeGb": "1", "status": "READY"}]`,
		"openstack detaching":               openStack(`"Status": "detaching", "Attached to": [{"server_id": "s"}]`),
		"openstack, in use by nobody":       openStack(`"Status": "in-use", "Attached to": []`),
		"openstack, attached to a host":     openStack(`"Status": "in-use", "Attached to": [{"server_id": null, "host_name": "h"}]`),
		"hetzner without server":            `[{"id": 1, "linux_device": "/dev/x"}]`,
		"csi of a driver that lists none":   `{"entries": [{"volume": {"volume_id": "v"}, "status": {}}]}`,
		"the same volume twice":             aws(`"Attachments": []}, {"VolumeId": "vol-1", "Attachments": [{"InstanceId": "i-1", "State": "attached"}]`),
		"text that contradicts itself":      "v -\nv i-1\n",
	} {
		if l := read(t, text); len(l.Volumes) != 1 || l.Volumes[0].Settled() {
			t.Errorf("%s: %+v", name, l.Volumes)
		}
	}
	for name, text := range map[string]string{
		"aws":                             aws(`"Attachments": [{"InstanceId": "i-1", "State": "attached"}, {"InstanceId": "i-2", "State": "detached"}]`),
		"azure":                           azure(`"diskState": "ActiveSAS", "managedBy": null`),
		"aws, a query for ids and states": aws(`"State": "available"`),
		"google, single fields of a list with a user": `[{"selfLink": "https://x/projects/p/zones/z/disks/d", "sizeGb": "1"},
			{"selfLink": "https://x/projects/p/zones/z/disks/e", "sizeGb": "1", "users": ["https://x/projects/p/zones/z/instances/i"]}]`,
		"openstack": openStack(`"Status": "error", "Attached to": []`),
	} {
		if l := read(t, text); !l.Volumes[0].Settled() {
			t.Errorf("%s is not settled: %+v", name, l.Volumes)
		}
	}
}

// TestErrors: an error says what is wrong and where.
func TestErrors(t *testing.T) {
	deep := `{"Volumes": [{"VolumeId": "v", "Tags": ` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}]}`
	for _, row := range []struct{ name, text, want string }{
		{"empty", " \n", "it is empty"},
		{"no volumes, and nobody knows whose", `[]`, "which storage system has no volumes: leave it out"},
		{"the same in YAML", "[]\n", "which storage system has no volumes: leave it out"},
		{"no volumes of one of two", `{"volumes": []}`, "which storage system has no volumes: leave it out"},
		{"the same in YAML", "volumes: []\n", "which storage system has no volumes: leave it out"},
		{"an empty field of another kind", `{"Snapshots": []}`, "not a list of volumes that is read"},
		{"nothing at all", "", "it is empty: a tool that finds no volume prints an empty list"},
		{"null", `{"Volumes": null}`, "Volumes is no list"},
		{"YAML of something else", "kind: Pod\nname: x\n", "not a list of volumes that is read"},
		{"broken YAML", "Volumes:\n- VolumeId: [\n", "not YAML"},
		{"objects of Kubernetes", `{"apiVersion": "v1", "kind": "List", "items": []}`, "not a list of volumes that is read"},
		{"another list", `[{"name": "x"}]`, "not a list of volumes that is read"},
		{"cut off", awsText[:len(awsText)-40], "line 23: volume 2: the text ends in the middle of the list"},
		{"no JSON", "{\n\"Volumes\": [{,}]}", "line 2: volume 1: invalid character"},
		{"more", awsText + "{}", "line 32: more text behind the list"},
		{"twice", `{"Volumes": [{"VolumeId": "v"}], "Volumes": [{"VolumeId": "w"}]}`, `a second field "Volumes"`},
		{"a field twice", `{"Volumes": [{"VolumeId": "v", "VolumeId": "w"}]}`, `volume 1: duplicate field "VolumeId"`},
		{"an empty id", `{"Volumes": [{"VolumeId": ""}]}`, `volume 1: "" is no id of a volume`},
		{"a hostile id", `{"Volumes": [{"VolumeId": "a\u001b[2Jb"}]}`, `volume 1: "a?[2Jb" is no id of a volume`},
		{"a hostile machine", `[{"id": 1, "linux_device": "x", "server": "1"}]`, `server "\"1\"" is no number`},
		{"too deep", deep, "exceeded max depth"},
		{"a long volume", `{"Volumes": [{"VolumeId": "v", "Tags": "` + strings.Repeat("x", maxVolume) + `"}]}`, "volume 1: more than 256 KiB"},
		{"too many machines", `{"entries": [{"volume": {"volumeId": "v"}, "status": {"publishedNodeIds": [` + strings.TrimSuffix(strings.Repeat(`"n",`, MaxAttachments+1), ",") + `]}}]}`, "attached to more than 1000 machines"},
		{"what a tool says when it fails", "\nAn error occurred (UnauthorizedOperation) when calling the DescribeVolumes operation: You are not authorized.\n", "line 2: what a tool says when it fails, and no list: An error occurred (UnauthorizedOperation)"},
		{"a table of a tool", "NAME  LOCATION  STATUS\nvol-1  zone  READY\n", "line 1: 3 columns, and not 2: the handle of a volume, and the machine or node that has it, or - for none; of a tool give the JSON"},
		{"a table", "+----+\n| ID |", "line 1: 1 columns, and not 2"},
		{"a table with lines", "vol-1 i-1\nvol-2 i-1 attached\n", "line 2: 3 columns, and not 2"},
		{"not a disk", `[{"selfLink": "https://x/zones/z/disks/d", "sizeGb": "1"}]`, "names no disk"},
		{"UTF-16", "\xff\xfe[\x00", "the text ends in the middle of the list"},
		{"bzip2", "BZh9", "packed with bzip2"},
		{"one format, then another", `{"Volumes": [{"VolumeId": "v"}], "entries": [{"volume": {"volumeId": "v"}}]}`, "not a list of volumes that is read"},
	} {
		_, err := Read("list", strings.NewReader(row.text), noon)
		if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %s", row.name, err, row.want)
		}
	}
	many := strings.Repeat(`{"VolumeId":"v"},`, MaxVolumes)
	if _, err := Read("list", strings.NewReader(`{"Volumes": [`+many+`{"VolumeId":"v"}]}`), noon); err == nil || !strings.Contains(err.Error(), "more than 200000 volumes") {
		t.Error(err)
	}
}

// TestFind: a list answers for the drivers whose volumes it can have, in their spelling.
func TestFind(t *testing.T) {
	azure := "/Subscriptions/db4e2fdb-6d80-4e6e-b7cd-736098270664/resourceGroups/newrgMD1/providers/microsoft.Compute/disks/NewManagedDisk1"
	for _, row := range []struct {
		text, driver, handle string
		found                bool
	}{
		{awsText, "ebs.csi.aws.com", "vol-1234567890abcdef0", true},
		{awsText, "ebs.csi.eks.amazonaws.com", "vol-1234567890abcdef0", true},
		{awsText, "ebs.csi.aws.com", "vol-1234567890abcdef", false},
		{awsText, "ebs.csi.aws.com", "VOL-1234567890abcdef0", false},
		{awsText, "csi.example.com", "vol-1234567890abcdef0", false},
		{azureText, "disk.csi.azure.com", azure, true},
		{googleText, "pd.csi.storage.gke.io", "projects/my-project/zones/us-central1-a/disks/pvc-1", true},
		{googleText, "pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/us-central1-a/disks/pvc-1", false},
		{hetznerText, "csi.hetzner.cloud", "4711", true},
		{csiText, "csi.example.com", "vol-b", true},
		{twoColumns, "csi.example.com", "vol-3", true},
	} {
		if _, found := read(t, row.text).Find(row.driver, row.handle); found != row.found {
			t.Errorf("%s of %s: %t", row.handle, row.driver, found)
		}
	}
}

// TestMachines: the storage system's names for a node's machine come from the ids of its
// driver and its provider; the node's own name counts only in two columns of text.
func TestMachines(t *testing.T) {
	for _, row := range []struct {
		format                  Format
		node, driverID, provide string
		want                    []string
	}{
		{AWS, "n", "i-1", "aws:///us-east-1a/i-1", []string{"i-1"}},
		{AWS, "n", "n", "", nil},
		{Azure, "n", "n", "azure:///subscriptions/S/resourceGroups/R/providers/Microsoft.Compute/virtualMachines/V", []string{"/subscriptions/s/resourcegroups/r/providers/microsoft.compute/virtualmachines/v"}},
		{Azure, "n", "n", "azure:///s/resourceGroups/R/virtualMachineScaleSets/Set_1/virtualMachines/10", []string{"/s/resourcegroups/r/virtualmachinescalesets/set_1/virtualmachines/10"}},
		{Azure, "n", "n", "", nil},
		{Google, "n", "projects/p/zones/z/instances/i", "gce://p/z/i", []string{"projects/p/zones/z/instances/i"}},
		{Google, "n", "", "gce://p/z/i", []string{"projects/p/zones/z/instances/i"}},
		{OpenStack, "n", "u", "openstack:///u", []string{"u"}},
		{OpenStack, "n", "", "openstack://region/u", []string{"u"}},
		{Hetzner, "n", "12", "hcloud://12", []string{"12"}},
		{CSI, "n", "id", "x://y", []string{"id", "n"}},
		{CSI, "n", "", "x://y", []string{"n"}},
		{Longhorn, "n", "id", "x://y", []string{"id"}},
		{Trident, "n", "", "x://y", nil},
		{Text, "n", "id", "aws:///z/i-1", []string{"id", "aws:///z/i-1", "i-1", "n"}},
	} {
		if got := row.format.Machines(row.node, row.driverID, row.provide); !cmp.Equal(got, row.want) {
			t.Errorf("%s %s: %q", row.format, row.provide, got)
		}
	}
}

// FuzzRead: for any text, Read returns a list that is sorted and within bounds, or an error
// of one line, and the same result twice.
func FuzzRead(f *testing.F) {
	for _, text := range []string{awsText, azureText, googleText, openStackText, hetznerText, csiText, longhornText, tridentText, linstorText, cstorText, jivaText, twoColumns} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { fuzzed(t, text) })
}

// fuzzVolume fuzzes the reader of one format, with the text in the place of the volumes.
func fuzzVolume(f *testing.F, seed, before, after string) {
	f.Helper()
	volume := strings.TrimSuffix(strings.TrimPrefix(seed, before), after)
	f.Add(volume)
	f.Fuzz(func(t *testing.T, volume string) {
		fuzzed(t, before+volume+after)
	})
}

// FuzzAWS: any text in place of the volumes of such a list passes the checks of FuzzRead.
func FuzzAWS(f *testing.F) {
	fuzzVolume(f, `{"Volumes": [{"VolumeId": "v", "Attachments": [{"InstanceId": "i", "State": "busy", "AttachTime": "2026-11-18T21:03:57+00:00"}]}]}`, `{"Volumes": [`, `]}`)
}

// FuzzAzure: any text in place of the volumes of such a list passes the checks of FuzzRead.
func FuzzAzure(f *testing.F) { fuzzVolume(f, azureText, "[", "]") }

// FuzzGoogle: any text in place of the volumes of such a list passes the checks of FuzzRead.
func FuzzGoogle(f *testing.F) { fuzzVolume(f, googleText, "[", "]") }

// FuzzOpenStack: any text in place of the volumes of such a list passes the checks of FuzzRead.
func FuzzOpenStack(f *testing.F) { fuzzVolume(f, openStackText, "[", "]") }

// FuzzHetzner: any text in place of the volumes of such a list passes the checks of FuzzRead.
func FuzzHetzner(f *testing.F) { fuzzVolume(f, hetznerText, "[", "]") }

// FuzzText: any text in place of the volumes of such a list passes the checks of FuzzRead.
func FuzzText(f *testing.F) { fuzzVolume(f, twoColumns, "", "") }

// FuzzCSI: any text in place of the volumes of such a list passes the checks of FuzzRead.
func FuzzCSI(f *testing.F) {
	fuzzVolume(f, `{"entries": [{"volume": {"volume_id": "v"}, "status": {"published_node_ids": ["n"]}}]}`, `{"entries": [`, `]}`)
}

func fuzzed(t *testing.T, text string) {
	t.Helper()
	l, err := Read("list", strings.NewReader(text), noon)
	if err != nil {
		if strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Fatalf("%q", err)
		}
		return
	}
	again, err := Read("list", strings.NewReader(text), noon)
	if err != nil || !cmp.Equal(l, again) {
		t.Fatalf("read twice: %v", err)
	}
	for i, v := range l.Volumes {
		if !IsName(v.ID) || i > 0 && l.Volumes[i-1].ID >= v.ID {
			t.Fatalf("volume %d: %q", i, v.ID)
		}
		for _, driver := range []string{"ebs.csi.aws.com", "disk.csi.azure.com", "pd.csi.storage.gke.io", "cinder.csi.openstack.org", "csi.hetzner.cloud", "driver.longhorn.io", "csi.trident.netapp.io", "linstor.csi.linbit.com", "cstor.csi.openebs.io", "jiva.csi.openebs.io", "other"} {
			if found, ok := l.Find(driver, v.ID); ok != l.Format.Of(driver) || ok && fmt.Sprint(found) != fmt.Sprint(v) {
				t.Fatalf("%s of %s: %t", v.ID, driver, ok)
			}
		}
	}
}

var endOfObject = regexp.MustCompile(`([^{\s])\s*}`)

// TestSecretsAreNotKept: no field that may hold a secret is kept, wherever it stands, and the
// list is otherwise the same.
func TestSecretsAreNotKept(t *testing.T) {
	for name, text := range map[string]string{
		"aws": awsText, "azure": azureText, "google": googleText, "openstack": openStackText, "hetzner": hetznerText, "csi": csiText,
		"longhorn": longhornText, "trident": tridentText, "linstor": linstorText, "cstor": cstorText, "jiva": jivaText,
	} {
		planted := endOfObject.ReplaceAllString(text, `$1, "password": "PLANTED", "token": "PLANTED", "message": "Authorization: Bearer PLANTED"}`)
		if n := strings.Count(planted, "PLANTED"); n < 6 {
			t.Fatalf("%s: planted %d times", name, n)
		}
		got, want := read(t, planted), read(t, text)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
		if kept, err := json.Marshal(got); err != nil || bytes.Contains(kept, []byte("PLANTED")) {
			t.Errorf("%s: a secret is kept (%v): %s", name, err, kept)
		}
	}
}

// TestWrappedLists: a tool's list reads the same in YAML, in the form of its API, and in
// UTF-16; an empty one is accepted too.
func TestWrappedLists(t *testing.T) {
	aws := Volume{ID: "vol-1", State: "in-use", Attachments: []Attachment{{Machine: "i-1"}}}
	cinder := Volume{ID: "v1", State: "in-use", Attachments: []Attachment{{Machine: "s1"}}}
	disk := "/subscriptions/s/resourcegroups/g/providers/microsoft.compute/disks/d"
	for _, row := range []struct {
		name, text string
		format     Format
		want       []Volume
		partial    bool
	}{
		{"an empty list of aws", `{"Volumes":[]}`, AWS, nil, false},
		{"an empty list in YAML", "Volumes: []\n", AWS, nil, false},
		{"an empty list of CSI", `{"entries": []}`, CSI, nil, false},
		{"an empty list of CSI, of which more follows", `{"entries": [], "next_token": "7"}`, CSI, nil, true},
		{"an empty answer of Azure's API", `{"value": []}`, Azure, nil, false},
		{"an empty answer of Azure's API in YAML", "value: []\n", Azure, nil, false},
		{"aws --output yaml", "Volumes:\n- Attachments:\n  - InstanceId: i-1\n    State: attached\n  State: in-use\n  VolumeId: vol-1\n", AWS, []Volume{aws}, false},
		{"aws with --query, in YAML", "- Attachments:\n  - InstanceId: i-1\n    State: attached\n  State: in-use\n  VolumeId: vol-1\n", AWS, []Volume{aws}, false},
		{"hcloud -o yaml", "- id: 7\n  linux_device: /dev/x\n  server: 3\n  status: available\n", Hetzner, []Volume{{ID: "7", State: "available", Attachments: []Attachment{{Machine: "3"}}}}, false},
		{"Hetzner's API", `{"volumes": [{"id": 7, "linux_device": "/dev/x", "server": 3, "status": "available"}], "meta": {"pagination": {"next_page": 2}}}`, Hetzner, []Volume{{ID: "7", State: "available", Attachments: []Attachment{{Machine: "3"}}}}, true},
		{"OpenStack's API", `{"volumes": [{"id": "v1", "status": "in-use", "attachments": [{"server_id": "s1"}]}]}`, OpenStack, []Volume{cinder}, false},
		{"openstack -f yaml", "- Attached to:\n  - server_id: s1\n  ID: v1\n  Status: in-use\n", OpenStack, []Volume{cinder}, false},
		{"Azure's API", `{"value": [{"id": "` + disk + `", "managedBy": "/m", "properties": {"diskState": "Attached"}}], "nextLink": "https://x"}`, Azure, []Volume{{ID: disk, State: "Attached", Attachments: []Attachment{{Machine: "/m"}}}}, true},
		{"gcloud --format yaml", "---\nkind: compute#disk\nselfLink: https://x/projects/p/zones/z/disks/d\nsizeGb: '1'\nstatus: READY\n---\nkind: compute#disk\nselfLink: https://x/projects/p/zones/z/disks/e\nsizeGb: '1'\nstatus: READY\n", Google,
			[]Volume{{ID: "projects/p/zones/z/disks/d", State: "READY", GiB: 1}, {ID: "projects/p/zones/z/disks/e", State: "READY", GiB: 1}}, false},
		{"one disk of gcloud", "kind: compute#disk\nselfLink: https://x/projects/p/zones/z/disks/d\nsizeGb: '1'\nstatus: READY\n", Google, []Volume{{ID: "projects/p/zones/z/disks/d", State: "READY", GiB: 1}}, false},
		{"UTF-16", "\xff\xfe{\x00\"\x00V\x00o\x00l\x00u\x00m\x00e\x00s\x00\"\x00:\x00[\x00]\x00}\x00", AWS, nil, false},
		{"columns", "pvc-1 node-1\n", Text, []Volume{{ID: "pvc-1", Attachments: []Attachment{{Machine: "node-1"}}}}, false},
	} {
		l, err := Read("list", strings.NewReader(row.text), noon)
		if err != nil {
			t.Errorf("%s: %v", row.name, err)
			continue
		}
		if diff := cmp.Diff(row.want, l.Volumes); diff != "" || l.Format != row.format || l.Partial != row.partial {
			t.Errorf("%s: %s, partial %v: %s", row.name, l.Format, l.Partial, diff)
		}
	}
}

// TestOpenStackWords: clients of 2018 and earlier name the server in words. Only its id identifies it.
func TestOpenStackWords(t *testing.T) {
	const server = "0785ee80-1eca-426b-b8c4-5b499fc7f614"
	for words, want := range map[string]Volume{
		"Attached to " + server + " on /dev/vdb ":                                  {Attachments: []Attachment{{Machine: server}}},
		"Attached to " + server + " on /dev/vdb Attached to worker-1 on /dev/vdc ": {Attachments: []Attachment{{Machine: server}}, Silent: true},
		"Attached to worker-1 on /dev/vdb ":                                        {Silent: true},
		"":                                                                         {Silent: true},
	} {
		got := read(t, `[{"ID": "v", "Status": "in-use", "Attached to": "`+words+`"}]`).Volumes[0]
		want.ID, want.State = "v", "in-use"
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q:\n%s", words, diff)
		}
	}
}

// TestNoFurtherPage: Cinder's API names the next page in a list, which is empty behind the last one.
func TestNoFurtherPage(t *testing.T) {
	for links, want := range map[string]bool{`[]`: false, `[{"rel": "next", "href": "https://x"}]`: true} {
		l := read(t, `{"volumes": [{"id": "v", "status": "available", "attachments": []}], "volumes_links": `+links+`}`)
		if l.Partial != want {
			t.Errorf("%s: further pages %t", links, l.Partial)
		}
	}
}
