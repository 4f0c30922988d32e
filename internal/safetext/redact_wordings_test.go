package safetext

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// wordings are ways in which drivers, tools and servers print a secret beside its name or in
// its own shape: § is any word, ¤ one that was made by chance, and
// ↵ the end of a line.
var wordings = strings.Split(strings.TrimSpace(`
<password>§</password>
<Password>§</Password>
<ns:authToken>§</ns:authToken>
<chap-secret encoding="plain">§</chap-secret>
<secretKey><![CDATA[§]]></secretKey>
&lt;password&gt;§&lt;/password&gt;
<login user="admin" password="§"/>
<login user='admin' passwd='§'/>
<param name="password" value="§"/>
<param name='chapSecret' value='§'/>
\u003cpassword\u003e§\u003c/password\u003e
password "§" was refused
password '§' was refused
password § was refused
Password §
passphrase § does not open the device
passwd §
the password is §
the password is "§"
password of §
password set to §
its password was '§'
pwd §
bindpw: §
bind_pw=§
api token ¤ was refused
API token "¤"
access token ¤ expired
the token is ¤
secret key ¤ is unknown
secret_key ¤
client_secret ¤ is wrong
access_key ¤
api-key ¤
apikey is "¤"
CHAP secret ¤
shared secret ¤
encryption key ¤
iscsiadm -m node -o update -n node.session.auth.password -v §
iscsiadm -n node.session.auth.password_in -v §
iscsiadm --name node.session.auth.password --value §
iscsiadm --name=node.session.auth.password --value=§
["iscsiadm","-n","node.session.auth.password","-v","§"]
iscsiadm -n discovery.sendtargets.auth.password -v '§'
-n node.session.auth.password -o update -v §
smbclient //nas/share -U joe%§
smbclient -U 'joe%§' //nas/share
smbclient --user=joe%§ //nas/share
rpcclient -U DOMAIN\joe%§ nas
sshpass -p § ssh root@nas
sshpass -p§ ssh root@nas
sshpass -p '§' ssh root@nas
["sshpass","-p","§","ssh"]
mysql -uroot -p§ -h db
ipmitool -I lanplus -U admin -P § power status
ldapsearch -D cn=x -w § -b dc=x
redis-cli -a § ping
password%3D§
user%3Djoe%26password%3D§
token%3D¤
?X-Amz-Signature%3D¤
Cookie: JSESSIONID=§
Set-Cookie: session=§; Path=/; HttpOnly
set-cookie: a=1; sid=§
"Cookie":"SID=§"
Cookie:[SID=§]
{"Set-Cookie":["auth=§; Secure"]}
Authorization: Bearer ¤
Authorization: Basic ¤
Authorization: Token ¤
authorization=Digest ¤
"Authorization":["Bearer ¤"]
Proxy-Authorization: Basic ¤
header Bearer ¤ was sent
X-Auth-Token: ¤
X-Vault-Token: ¤
X-Api-Key: ¤
Authorization:[Basic ¤]
{"name":"password","value":"§"}
{"name": "DB_PASSWORD", "value": "§"}
{"key":"secretKey","value":"§"}
{Name:PASSWORD Value:§}
{\"name\":\"token\",\"value\":\"§\"}
name: DB_PASSWORD, value: §
{"password": "§"}
{"adminPassword":"§","x":1}
map[password:§ user:joe]
map[accessKey:¤ secretKey:§]
[]string{"--password", "§"}
--password=§
--password §
--password '§'
--admin-token "§"
-password §
export DB_PASSWORD=§
set PASSWORD=§
password => §
password := "§"
password='§'
password=\"§\"
PASSWORD: "§"
Pwd=§;Server=db
User Id=sa;Password=§;
AccountKey=§==;
SharedAccessSignature=§
SharedAccessKey=§
connect postgres://joe:§@db/x
redis://:§@cache:6379/0
https://§@git.example.com/x
amqp://joe:§@mq
mount -t cifs //nas/x /mnt -o username=joe,password=§
mount -o user=joe,pass=§ //nas/x
mount -t ceph -o name=admin,secret=§ mon:/ /mnt
mount -t davfs -o password=§ https://x
-o username=joe -o password=§
curl -u joe:§ https://x
curl --user joe:§ https://x
curl -H "X-Auth-Token: §" https://x
curl --proxy-user joe:§ https://x
https://x/y?sig=§
https://x/y?sv=1&se=2&sig=§
https://x/y?X-Amz-Security-Token=§
https://x/y?access_token=§
token hvs.CAESIJm§0123456789abcdefgh was revoked
batch hvb.AAAAAQ§0123456789abcdefgh
vault s.§0123456789abcde
admin key AQDx§0123456789abcdefghijklmnopqrst==
git github_pat_11ABC§_0123456789abcdefgh
git ghp_§0123456789abcdefgh
id LTAI5t§0123456789ab
id AKID§0123456789abcd
id AKIA§01234567890123
session FwoGZXIvYXdz§0123456789abcdefghijkl
session IQoJb3JpZ2lu§0123456789abcdefghijkl
azure abc8Q~§0123456789abcdefghijklmnopq.rs
registry dckr_pat_§0123456789abcdefgh
npm npm_§0123456789abcdefgh
grafana glsa_§0123456789abcdefgh
gitlab glpat-§0123456789
stripe sk_live_§0123456789abcdefgh
mail SG.§0123456789abcdefgh.§0123456789abcdefgh
slack xoxb-§-0123456789
google ya29.§0123456789
google AIza§0123456789abcdefghijklmnopqrstu
jwt eyJhbGciOiJ§.eyJzdWIiOiJ§.s§
file LS0tLS1CRUdJTiBSU0EgUFJJVkFURS§0123456789
shadow root:$6$salt$§0123456789abcdef
dop_v1_§0123456789abcdefgh
<user>admin</user><pass>§</pass>
<credential type="password">§</credential>
<entry key="password">§</entry>
<property name="db.password">§</property>
<string name="token">¤</string>
<wsse:Password Type="PasswordText">§</wsse:Password>
<auth username='admin' password='§'/>
<SessionToken>¤</SessionToken>
<SecretAccessKey>§</SecretAccessKey>
<passphrase format="x">↵  §↵</passphrase>
password: §
password is: §
password is '§'
Password = "§"
with password §
using password "§"
using password '§' for user admin
user admin password § rejected
username "admin", password "§"
user=admin password=§ host=db
user:admin,password:§
user: admin, pass: §
pass "§"
pass: "§"
the passphrase was "§"
passphrase: '§'
LUKS passphrase "§" does not match
secret "§" is wrong for CHAP user
CHAP password "§"
chap secret: §
node.session.auth.password = §
node.session.auth.password_in = §
-n node.session.auth.password -v §
--name node.session.auth.password --value=§
-n "node.session.auth.password" -v "§"
iscsiadm -m node -T iqn.2003-01.org:x -p 10.0.0.1 --op=update --name node.session.auth.password --value=§
smbclient -U admin%§
-U "admin%§"
-U admin%§ //nas/share
mount.cifs //nas/x /mnt -o user=a%§
mount.cifs //nas/x /mnt -o username=a,password=§,vers=3.0
mount -o "username=a,password=§"
mount args: -t cifs -o password=§,uid=0 //nas/x /mnt
Mounting arguments: -t cifs -o username=joe,password=§ //nas/x /mnt
options=[username=joe password=§]
options: ["username=joe","password=§"]
sshpass -p § ssh root@x
sshpass -p "§" scp
sshpass -e SSHPASS=§
SSHPASS=§ sshpass -e ssh root@x
password%3d§%26user%3da
?password=§&x=1
&pwd=§
https://host/api?apikey=§
https://host/api?X-Amz-Signature=§&X-Amz-Credential=AKIA
https://user:§@host/path
https://user:§@host:8080
http://§@host
s3://AKIA:§@bucket
rbd:pool/img:id=admin:key=§==:mon_host=x
Cookie: sid=§; other=1
cookie: PHPSESSID=§
Set-Cookie: JSESSIONID=§; Path=/
cookies: {"sid": "§"}
session cookie §7890abcdef is invalid
Authorization: Basic §
Authorization: Bearer §
authorization: bearer ¤
"authorization": "Basic ¤="
Authorization=Bearer%20¤
Authorization:%20Basic%20¤
X-Auth-Token: §
x-auth-token=§
X-Subject-Token: §
Api-Key: §
apikey: §
api_key="§"
X-Vault-Token: hvs.§789012345678901234
hvs.§CAESIJ1234567890
hvb.§AAAAAQKr123456
vault token s.§890123456789012
VAULT_TOKEN=§
auth via AppRole secret_id=§
secret-id "¤-1234"
ceph --id admin --key §
ceph key = AQ§BkGNhVAAhAA1234567890abcdef1234==
[client.admin]↵\tkey = AQ§BkGNhVAAhAA1234567890abcdef1234==
secret=AQ§BkGNhVAAhAA1234567890abcdef1234==
rbd map --keyfile /tmp/x --key AQ§BkGNhVAAhAA1234567890abcdef12==
userKey: §
adminKey: §
github_pat_11§A0_abcdefghijklmnop
ghp_§abcdefghijklmnopqrs
gho_§abcdefghijklmnopqrs
LTAI4§abcdefgh1234
LTAI5t§abcdefgh1234
AKID§abcdefgh12345
AccessKeySecret: §
access_key_secret=§
SecretId=AKID§abcdefgh12345
SecretKey: §
AWS_SECRET_ACCESS_KEY=§
aws_session_token = §
ASIA§1234567890
AKIA§1234567890
SessionToken: FwoG§ZXIvYXdzEBYaDABCDEF
token IQoJ§b3JpZ2luX2VjEABCDEFGH
{"accessKeyId":"AKIA§1234567890","secretAccessKey":"§"}
{"auths":{"r.io":{"auth":"¤=="}}}
{"auths":{"r.io":{"username":"a","password":"§"}}}
{\"password\":\"§\"}
{\\\"password\\\":\\\"§\\\"}
{"password":{"value":"§"}}
{"data":{"password":"§"}}
{"userID":"admin","userKey":"§"}
{"name":"CHAP_SECRET","value":"§"}
{"key":"password","val":"§"}
{"type":"password","value":"§"}
password:↵  §
password: |↵  §
password: >-↵  §
- name: PASSWORD↵  value: §
- name: DB_PASSWORD↵  value: "§"
stringData:↵  password: §
data:↵  token: §
- password: §
map[string]string{"password":"§"}
map[string]string{"userKey":"§", "userID":"x"}
&{Username:a Password:§}
{Username:a Password:§}
Secrets:map[password:§]
secrets:<key:"password" value:"§" >
secrets:{key:"password" value:"§"}
node_stage_secrets:<key:"userKey" value:"§" >
Passwords:[§]
passwords: [§, b]
password (§)
password [§]
password <§>
password -> §
password=> §
password==§
password = $'§'
PGPASSWORD=§ psql
MYSQL_PWD=§ mysql
REDISCLI_AUTH=§
export TOKEN=§
set -x PASSWORD §
ENV PASSWORD §
--from-literal=password=§
--from-literal password=§
--docker-password=§
--pass §
--passwd=§
--token §
--secret §
-pw §
--auth admin:§
-u admin:§
--user 'admin:§'
-uadmin:§
curl -uadmin:§ https://x
wget --http-password=§
mysql -u root -p'§'
mysql --password='§'
openssl enc -k §
openssl -passin pass:§
-passin pass:§
-pass pass:§
cryptsetup luksOpen --key-file <(echo -n §)
echo § | cryptsetup luksOpen
echo "§" | sudo -S mount
snmpwalk -v3 -A § -X § 10.0.0.1
bindpw §
DefaultEndpointsProtocol=https;AccountName=a;AccountKey=§==;EndpointSuffix=x
SharedAccessSignature=sv=2020&sig=§
sas token ?sv=2020-08-04&sig=§%3D
jdbc:mysql://h/db?user=a&password=§
jdbc:oracle:thin:a/§@h:1521
Data Source=x;User ID=a;Password=§
client_secret=§&grant_type=x
refresh_token: "§"
id_token=¤
"accessToken": "¤"
bearerToken:¤
OS_PASSWORD=§
"adminPass": "§"
PRIVATE-TOKEN: §
glpat-§abcdefghij
xoxb-123-§
hooks.slack.com/services/T000/B000/§abcdefghijklmn
password%3A%20§
password%3a+§
pass phrase: §
encryption pass phrase is "§"
cryptsetup luksOpen /dev/sda x --key-file - <<< §
chpasswd <<< joe:§
chpasswd <<<"joe:§"
smbclient //nas/x § -U joe
net use \\nas\x § /user:joe
net use Z: \\nas\x §
JSESSIONID=§; Path=/
{"sessionId":"§"}
session_id: "§"
PHPSESSID=§
sid=§
?api=SYNO&_sid=§
auth_session=§
pin=§
otp=§
client-key-data: §
kek=§
dek: §
hmac=§
unseal key 1: §
Recovery Key 2: §
JWT ¤ expired
jwt=§
keytab base64:¤==
data:text/plain;base64,¤
kinit: Password for joe@X: §
password for joe is §
password for user joe is "§"
password='it''s §'
Password="say ""§"" twice"
`), "\n")

// TestWordings: none of the wordings keeps its secret. A password is any word, and a token
// one that was made by chance.
func TestWordings(t *testing.T) {
	if len(wordings) < 300 {
		t.Fatalf("%d wordings", len(wordings))
	}
	for _, wording := range wordings {
		text := strings.NewReplacer("§", "QXSECRET7", "¤", "aGk7QXSECRET7zz", "↵", "\n").Replace(wording)
		text = "rpc error: " + text + ": see the log"
		got := Redact(text)
		if strings.Contains(got, "QXSECRET7") {
			t.Errorf("%s\nstays %s", text, got)
		}
		if strings.Count(wording, "§")+strings.Count(wording, "¤") == 0 {
			t.Errorf("%s has no secret", wording)
		}
		if Redact(got) != got {
			t.Errorf("%s\nbecomes %s\nand then %s", text, got, Redact(got))
		}
		if !strings.HasPrefix(got, "rpc error: ") {
			t.Errorf("%s\nbecomes %s", text, got)
		}
	}
}

// TestNamesBesideValues: a name, what parts it from its value, quotes and a value, in any
// combination, lose the value.
func TestNamesBesideValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"password", "Password", "DB_PASSWORD", "passwd", "pwd", "passphrase", "node.session.auth.password", "chapPassword", "admin-password"}).Draw(t, "name")
		apart := rapid.SampledFrom([]string{"=", ": ", ":", " = ", " ", "  ", " is ", " => ", ":=", "%3D", "%3d", " -v ", " --value ", "\" value=\"", ">", "&gt;"}).Draw(t, "apart")
		quote := rapid.SampledFrom([]string{"", "\"", "'", `\"`}).Draw(t, "quote")
		value := rapid.StringMatching(`[A-Za-z0-9!._~-]{0,6}Zq7x[A-Za-z0-9!_~-]{0,6}`).Draw(t, "value")
		before := ""
		switch apart {
		case " -v ":
			before = "-n "
		case " --value ":
			before = "--name "
		case "\" value=\"":
			before, quote = "name=\"", ""
		case ">":
			before, quote = "<", ""
		case "&gt;":
			before, quote = "&lt;", ""
		}
		text := "mount failed: " + before + name + apart + quote + value + quote + " end"
		got := Redact(text)
		if strings.Contains(got, "Zq7x") {
			t.Fatalf("%s\nstays %s", text, got)
		}
		if !strings.HasPrefix(got, "mount failed: ") || !strings.Contains(got, name) {
			t.Fatalf("%s\nbecomes %s", text, got)
		}
	})
}

// TestNamesStay: names of objects, users and nodes beside words for secrets are none.
func TestNamesStay(t *testing.T) {
	for _, text := range strings.Split(strings.TrimSpace(`
User "system:serviceaccount:kube-system:csi-1" cannot list resource "pods" in API group "" at the cluster scope
pods is forbidden: User "jane.doe2@example.com" cannot list resource "secrets" in API group "" in the namespace "shop"
secrets "smbcreds" not found
secret "smbcreds" not found
secret "smbcreds-7x2k9" not found
secret smbcreds not found
references non-existent secret key: passwd
references non-existent secret key: tls.key
password of user keepuser could not be read
password for user keepuser is wrong
Password for keepuser: permission denied
session[3] of portal 10.0.0.1 has ended
iscsiadm: Logging out of session [sid: 5, target: iqn.2003-01.org:x]
smbclient //nas/x -U joe failed
hash: 6b86b273ff34fce19d6b
PersistentVolume pv-session-id is Released
jwt-volume is not attached to node jwt-1
fetching NodeStageSecretRef default/smb-creds-9 failed: secret smb-creds-9 in namespace default is missing
couldn't find key password in Secret default/db
couldn't find key db_password1 in Secret default/db-7f9c
key "adminPassword" is missing in secret "default/db-1"
missing key "storageAccountName" in secret azure-secret-1
password authentication failed for user "joe"
password authentication failed for user joe
password is required
password is not set
password was rejected by 10.0.0.1
the password has expired
password must be changed
password for user joe2 is wrong
invalid password
token bucket is empty: 20 requests per second
token has expired
token is expired by 2h3m
failed to fetch token: serviceaccounts "csi-node-2" not found
unable to fetch token for pod web-0: timed out
authentication token file /var/run/secrets/kubernetes.io/serviceaccount/token is missing
service account token volume kube-api-access-x7k2p is not mounted
access key is disabled
encryption key csi-kms-1 is unknown to the KMS
KMS key arn:aws:kms:eu-west-1:123456789012:key/8d2c6f0e-1111-4222-8333-444455556666 is disabled
node i-0abc123def4567890 is not known
attaching vol-0abc123def4567890 to i-0abc123def4567890 timed out
claim data-web-0 is bound to pvc-8d2c6f0e-1111-4222-8333-444455556666
volume handle 0001-0009-rook-ceph-0000000000000001-8d2c6f0e-1111-4222-8333-444455556666
projects/p1/zones/europe-west1-b/disks/pvc-8d2c6f0e
key volume.beta.kubernetes.io/storage-provisioner is set
topologyKey topology.kubernetes.io/zone has no value
"authentication handshake failed: EOF"
auth failed for 10.0.0.1
node.session.auth.authmethod = CHAP
iscsiadm -m node -n node.startup -v manual
iscsiadm: initiator reported error (24 - iSCSI login failed due to authorization failure)
<volume><name>pv1</name><size>10Gi</size></volume>
mkdir -p /var/lib/kubelet/plugins
ssh -p 22 root@nas1
SSH key exchange with host1 failed
cookie store is unavailable
basic authentication is off
User "system:node:n1" cannot list resource "volumeattachments" in API group "storage.k8s.io" at the cluster scope
User "system:serviceaccount:kube-system:ebs-csi-controller-sa" cannot list resource "secrets" in API group "" in the namespace "default"
User "alice" cannot get resource "pods/log"
user alice@example.com cannot list pods
volumeattachments.storage.k8s.io is forbidden: User "token-reviewer" cannot list resource
User "key-admin" cannot list resource "nodes"
secret "ceph-secret" not found
secret "rook-csi-rbd-node" not found
secret "csi-rbd-secret-7f8a9b2c" not found
secret default/token-abc12 not found
Secret "azure-secret" in namespace "kube-system" has no key azurestorageaccountkey
couldn't find key "username" in secret "smbcreds"
failed to get secret kube-system/azure-storage-account-f0a1b2c3d-secret
MountVolume.SetUp failed for volume "kube-api-access-9x8z7" : failed to fetch token: serviceaccount "db" not found
MountVolume.SetUp failed for volume "secret-volume" : secret "db-pass" not found
MountVolume.SetUp failed for volume "credentials" : secret "aws-credentials" not found
MountVolume.SetUp failed for volume "pass-1" : configmap "passwords" not found
pod password-manager-7d9f8c6b5-x2x4z is pending
pod/token-service-6c5d4f7b8-abcde
node/key-server-01 is not ready
pvc-3fa85f64-5717-4562-b3fc-2c963f66afa6
volume handle 0001-0024-fed5480a-f00f-417a-a51d-31d8a8144c03-0000000000000002-0f2b1c3d
vol-0a1b2c3d4e5f67890
uid 3fa85f64-5717-4562-b3fc-2c963f66afa6
UID: 3fa85f64-5717-4562-b3fc-2c963f66afa6
csi-0aa1331d27564e762849e91f875360521f279db60bc01cd052ec21f14b41960f
/subscriptions/8d2c6f0e-1111-4222-8333-444455556666/resourceGroups/rg/providers/Microsoft.Compute/disks/pvc-1
image nginx@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
registry.k8s.io/pause:3.9@sha256:0123456789abcdef
iqn.2003-01.org.linux-iscsi.host.x8664:sn.4f5e6d7c8b9a
wwn 0x5000c500a1b2c3d4
RequestID: 8f2d3c4b-1111-2222-3333-444455556666
request id: 5KJ3QW8ZBN6T1Y2X
ARN arn:aws:iam::123456789012:role/ebs-csi-driver-role
AccessDenied: User: arn:aws:sts::123456789012:assumed-role/eks-node/i-0abc123def4567890 is not authorized to perform: ec2:AttachVolume
authentication failed for user joe: bad credentials
the token was issued by https://oidc.example.com/id/ABCDEF
error: You must be logged in to the server (the server has asked for the client to provide credentials)
key file /etc/ceph/keyring does not exist
keyring: /etc/ceph/ceph.client.admin.keyring
Passed node-1 to the driver
pass through device sdb2
bypass cache for pool1
passed 3 of 5 checks
compass-node-7 is down
keycloak-0 is Terminating
monkey-pod-1 on node monkey7
authorization mode Node,RBAC
authorizer kube-apiserver-n1
unauthorized: authentication required
token-controller: lease abc123def is lost
tokens of bucket b1: 20
secret ref name: smbcreds, namespace: default
nodeStageSecretRef: {name: csi-rbd-1, namespace: default}
secretName: azure-1f2e3d
secretNamespace: default
passwordSecretRef: db-pass-1
imagePullSecrets: regcred1
keyName: key-1a2b3c
encryption key ID: 1234abcd-12ab-34cd-56ef-1234567890ab
kmsKeyId: arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab
diskEncryptionSetID=/subscriptions/8d2c6f0e/resourceGroups/rg/providers/x/des1
mount -t nfs -o vers=4.1,hard,nolock 10.0.0.1:/x /mnt
mount -t ext4 -o defaults,ro /dev/sdb /mnt
-o seclabel,nouuid
blkid -p -s TYPE -o export /dev/sdb
fsck -a /dev/sdb1
umount -l /var/lib/kubelet/pods/3fa85f64-5717-4562-b3fc-2c963f66afa6/volumes/x
Multi-Attach error for volume "pvc-key-1"
node "n1" has no NodeID annotation
AttachVolume.Attach failed for volume "token-db" : rpc error: code = NotFound desc = volume vol-9 not found
lock owner key node1-1234-abcd
lease holder key n1_3fa85f64-5717-4562-b3fc-2c963f66afa6
etcd key /registry/pods/default/web-0 not found
annotation key csi.volume.kubernetes.io/nodeid
label key topology.ebs.csi.aws.com/zone=eu-west-1a
node password: is not in the config
bind to port 10250 failed
ssh root@10.0.0.1 failed
curl -u failed
session iqn.2003-01.org:disk1 [sid: 4, target: x, portal: 10.0.0.1,3260]
sid: 12345
signature does not match
the signature is invalid for request 8f2d3c4b
ICMP echo request to nas1 (10.0.0.1) timed out
openssl version -a
Community edition of the driver
`), "\n") {
		if got := Redact(text); got != text {
			t.Errorf("%s\nbecomes\n%s", text, got)
		}
	}
}
