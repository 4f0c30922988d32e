package safetext

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestRedact: each text has a secret with "MARK" in it.
func TestRedact(t *testing.T) {
	for text, want := range map[string]string{
		`Mounting arguments: -t cifs -o username=joe,password=s3MARK,vers=3.0 //host/share /mnt`:  `Mounting arguments: -t cifs -o username=***,password=***,vers=3.0 //host/share /mnt`,
		`Mounting arguments: -t ceph -o name=admin,secret=AQBMARK== 10.0.0.1:6789:/ /mnt`:         `Mounting arguments: -t ceph -o name=***,secret=*** 10.0.0.1:6789:/ /mnt`,
		`pods is forbidden: User "oidc:jane@example.com" cannot list resource "pods", token=MARK`: `pods is forbidden: User "oidc:jane@example.com" cannot list resource "pods", token=***`,
		`login of User "joe:MARK@example.com" failed`:                                             `login of User "joe:***@example.com" failed`,
		`args ["-t","cifs","-o","user=joe%MARK"]`:                                                 `args ["-t","cifs","-o","user=***"]`,
		`Get "https://joe:p@MARK/x@10.0.0.1:443/api": refused`:                                    `Get "https://***@10.0.0.1:443/api": refused`,
		`https://MARKtoken@git.example.com/x`:                                                     `https://***@git.example.com/x`,
		`mount joe:MARK@nas1:/vol failed`:                                                         `mount joe:***@nas1:/vol failed`,
		`PUT https://x.blob.core.windows.net/c?sv=2020&sig=MARK%3D: 403`:                          `PUT https://x.blob.core.windows.net/c?sv=***&sig=*** 403`,
		`conn "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=MARK==;EndpointSuffix=x"`:  `conn "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=***;EndpointSuffix=x"`,
		`exec: ["/bin/app", "--password", "MARK", "--token=MARK2", "-v"]`:                         `exec: ["/bin/app", "--password", "***", "--token=***", "-v"]`,
		`-o vers=3.0,cache=strict,password=s3MARK,actimeo=30 //host/share`:                        `-o vers=3.0,cache=strict,password=***,actimeo=30 //host/share`,
		`New-SmbGlobalMapping -Cred MARK.x -RemotePath a`:                                         `New-SmbGlobalMapping -Cred *** -RemotePath a`,
		`run --api-key MARK --verbose`:                                                            `run --api-key *** --verbose`,
		`{"client_secret":"MARK","a":"b"}`:                                                        `{"client_secret":"***","a":"b"}`,
		`{\"password\":\"MARK\"}`:                                                                 `{\"password\":\"***\"}`,
		`{Password:MARK Token:MARK}`:                                                              `{Password:*** Token:***}`,
		`password: MARK was refused`:                                                              `password: *** was refused`,
		`password: marka was refused MARK=`:                                                       `password: *** was refused MARK=`,
		`token: MARK`:                                                                             `token: ***`,
		`secret="a MARK b" rest`:                                                                  `secret="***" rest`,
		`Authorization: Bearer MARKabc rest`:                                                      `Authorization: *** rest`,
		`sent header Bearer MARK123456 and`:                                                       `sent header Bearer *** and`,
		`curl -u joe:MARK https://a.example.com`:                                                  `curl -u *** https://a.example.com`,
		`jwt eyJMARKaaaa.eyJzdWIi.sig-x end`:                                                      `jwt *** end`,
		`key id AKIAMARK567890123456 is disabled`:                                                 `key id *** is disabled`,
		"-----BEGIN RSA PRIVATE KEY-----\nMARK\n-----END RSA PRIVATE KEY----- end":                `*** end`,
		`passwd=MARK pass=MARK key=MARK sig=MARK storage_key = MARK DB_PASS=MARK`:                 `passwd=*** pass=*** key=*** sig=*** storage_key = *** DB_PASS=***`,
	} {
		if got := Redact(text); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}

// TestRedactKeepsWords: what checks match on, and evidence that is no secret.
func TestRedactKeepsWords(t *testing.T) {
	for _, text := range []string{
		`rpc error: code = Internal desc = failed to get token: rpc error: code = Unauthenticated desc = token expired`,
		`rpc error: code = InvalidArgument desc = secret "csi-creds" not found`,
		`error getting secret csi-creds in namespace kube-system: secrets "csi-creds" not found`,
		`couldn't find key password in Secret default/db`,
		`failed to get token: Post "https://login.example.com/": context deadline exceeded`,
		`failed to fetch token: serviceaccounts "default" not found`,
		`invalid password: permission denied`,
		`MountVolume.SetUp failed for volume "pv1" : rpc error: code = NotFound desc = volume ID kubernetes.io/csi/ebs.csi.aws.com^vol-1 not found on i-0abc`,
		`0/3 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }`,
		`image nginx:1.25@sha256:0123abcd pulled from https://registry.example.com:5000/a@b`,
		`topologyKey=topology.kubernetes.io/zone; monkey: business`,
		`bearer authentication is off, basic authentication too`,
		`configmap references non-existent config key: a.conf`,
		`Mounting arguments: -t efs -o accesspoint=fsap-0a1b2c3d,tls fs-0a1b:/ /mnt`,
		`New-SmbGlobalMapping -RemotePath $Env:smbremotepath -Cred ...\r\n+ FullyQualifiedErrorId : Windows System Error 65`,
		`Mounting arguments: -t cifs -o dir_mode=0777,cache=strict,nosharesock,actimeo=30 //host/share /mnt`,
		`Mounting arguments: -t nfs -o nfsvers=4.1,hard,proto=tcp host:/x /mnt`,
		`0001-0009-rook-ceph-0000000000000001-8d2c`, `projects/p1/zones/z/disks/d`, `/subscriptions/a/resourceGroups/b/providers/Microsoft.Compute/disks/c`,
	} {
		if got := Redact(text); got != text {
			t.Errorf("%s\nbecomes\n%s", text, got)
		}
	}
}

// TestRedactTwice: to redact again changes nothing, so that a file that is read
// gives the same report as the cluster.
func TestRedactTwice(t *testing.T) {
	piece := rapid.OneOf(rapid.SampledFrom([]string{
		"password", "token", "key", "secret", "sig", "=", ": ", ":", " ", "--", "-o ", "-u ", ",", ";", "\"", "'", `\"`, "`", "@", "://", "/", "?a=", "&b=", "Bearer ", "Authorization: ",
		"eyJabcdefg.abc.def", "AKIA1234567890123456", "hunter2", "user", "host", "***", "rpc error", ")", "]", "}", "\n", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", ".", "443",
	}), rapid.StringMatching(`[ -~]{0,4}`))
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(piece, 0, 12).Draw(t, "text"), "")
		once := Redact(text)
		if twice := Redact(once); twice != once {
			t.Fatalf("%q\n%q\n%q", text, once, twice)
		}
	})
}
