package safetext

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// wordings are ways in which drivers, tools and servers print a secret beside its name or in
// its own shape: § is any word, and ¤ one that was made by chance.
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
`), "\n")

// TestWordings: none of the wordings keeps its secret. A password is any word, and a token
// one that was made by chance.
func TestWordings(t *testing.T) {
	if len(wordings) < 140 {
		t.Fatalf("%d wordings", len(wordings))
	}
	for _, wording := range wordings {
		text := strings.NewReplacer("§", "QXSECRET7", "¤", "aGk7QXSECRET7zz").Replace(wording)
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
`), "\n") {
		if got := Redact(text); got != text {
			t.Errorf("%s\nbecomes\n%s", text, got)
		}
	}
}
