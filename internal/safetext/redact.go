package safetext

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// redacted stands where a secret stood.
const redacted = "***"

// Redact takes secrets out of a message that a program wrote for people:
// passwords and tokens after their names, in URLs, in the options of mount, and
// those that have a known shape. Words about secrets stay, and so do the names
// of Secret objects. To redact twice changes nothing more.
func Redact(message string) string {
	if !mayHoldSecret(message) {
		return message
	}
	if at := denied.FindStringSubmatchIndex(message); at != nil {
		return Redact(message[:at[2]]) + message[at[2]:at[3]] + Redact(message[at[3]:])
	}
	message = privateKey.ReplaceAllString(message, redacted)
	message = withScheme.ReplaceAllStringFunc(message, redactAddress)
	message = loginAtHost.ReplaceAllStringFunc(message, redactLogin)
	message = queryValue.ReplaceAllString(message, "${1}"+redacted)
	message = mountOptions.ReplaceAllStringFunc(message, redactOptions)
	message = curlUser.ReplaceAllString(message, "${1}"+redacted)
	message = smbUser.ReplaceAllString(message, "${1}"+redacted)
	message = piped.ReplaceAllString(message, "${1}"+redacted+"${2}")
	message = given.ReplaceAllString(message, "${1}"+redacted)
	message = hereString.ReplaceAllString(message, "${1}"+redacted)
	message = positional.ReplaceAllString(message, "${1}"+redacted)
	message = ticket.ReplaceAllString(message, "${1}"+redacted)
	message = encoded.ReplaceAllString(message, "${1}"+redacted)
	message = numbered.ReplaceAllString(message, "${1}"+redacted)
	message = oracle.ReplaceAllString(message, "${1}"+redacted+"@")
	message = cookies.ReplaceAllString(message, "${1}"+redacted)
	message = cookieJar.ReplaceAllString(message, "${1}"+redacted)
	message = named.ReplaceAllString(message, "${1}"+redacted)
	message = element.ReplaceAllString(message, "${1}"+redacted)
	message = redactValues(message, valueBeside)
	message = redactValues(message, passwordFlag)
	if scrambling.MatchString(message) {
		message = redactValues(message, scrambled)
	}
	message = redactValues(message, flagBefore)
	message = redactValues(message, nameBefore)
	message = redactValues(message, nameFor)
	message = redactSpoken(message)
	message = scheme.ReplaceAllStringFunc(message, redactScheme)
	return shapes.ReplaceAllString(message, redacted)
}

// signs are in every message that Redact changes; most messages have none.
var signs = []string{
	"pass", "pw", "token", "secret", "key", "sig", "cred", "auth", "@", "?", "-o", "-u", "bearer", "basic", "eyj", "akia", "asia", "ghp_", "gho_", "ghu_",
	"ghs_", "ghr_", "xox", "ya29", "aiza", "glpat", "pat_", "cookie", "hvs.", "hvb.", "hvr.", " s.", "\"s.", "'s.", "=s.", ":s.", "==", "ltai", "akid", "fwog", "iqoj", "fqog", "aqod", "8q~",
	"ls0tls1crudjt", "openssl", "snmp", "echo", "hooks.", "jdbc:", "npm_", "dop_v1_", "glsa_", "sk-", "sk_live_", "sg.", "phrase", "sess", "sid=", "jwt", "kek", "dek", "hmac", "pin=", "otp=", "<<<", "base64", "smbclient", "net use", "$1$", "$2", "$5$", "$6$", "$y$",
}

func mayHoldSecret(message string) bool {
	lower := strings.ToLower(message)
	return slices.ContainsFunc(signs, func(sign string) bool { return strings.Contains(lower, sign) })
}

// secretName is the name of something secret: a field, a flag, an option. "key"
// alone and "account_key" are, "topologyKey" is not.
const secretName = `(?:[a-z0-9_.\-]*(?:passwords?|passwd|pass[ _\-]?phrases?|sshpass|pwd|token|jwt|secret|secret[_\-]id|sess(?:ion)?[_\-]?id|credentials?|signature|authorization)[0-9]*(?:_in)?` +
	`|[a-z0-9_.\-]*(?:access|account|secret|api|private|encryption|shared|storage|auth|client|master|session|admin|user|root|bind|db)[_\-]?(?:key|pass|pw)[0-9]*` +
	`|(?:[a-z0-9_.\-]*[_.\-])?(?:pass|key|key[_\-]data|kek|dek|hmac|sig|auth|creds?|pw)[0-9]*)`

var (
	privateKey  = regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`)
	withScheme  = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.\-]*://[^\s"'<>]*@`)
	loginAtHost = regexp.MustCompile(`[A-Za-z0-9._%+\\\-]+:[^\s/@"'<>]+@[A-Za-z0-9\[]+`)
	queryValue  = regexp.MustCompile(`([?&][A-Za-z0-9_.\-]+=)[^&\s"'<>#]+`)
	// mountOptions are the options of mount(8), also as one of a list of arguments.
	mountOptions = regexp.MustCompile(`(?:^|[\s"'\[])-o["']?,?\s*["']?[^\s"']*=[^\s"']*`)
	curlUser     = regexp.MustCompile(`((?:^|[\s"'\[])(?:-u|--user|--proxy-user)["']?[,=]?\s*["']?)[^\s:"']+:[^\s"']+`)
	// flagBefore is a flag whose value is the next argument.
	flagBefore = regexp.MustCompile(`(?i)(?:^|[\s"'\[(=,])--?` + secretName + `["'\\]{0,2}(?:\s*,\s*|\s+)`)
	// nameBefore is a name and what parts it from its value.
	nameBefore = regexp.MustCompile(`(?i)\b(` + secretName + `)["'\\]{0,4}\s*(?:is\s*)?(=>|->|:=|=|:|%3[AaDd](?:%20|\+)*)\s*`)
	// nameFor is a password's name with whose it is, and what parts both from its value.
	nameFor = regexp.MustCompile(`(?i)\b(pass(?:word|wd|phrase)) (?:for|of) (?:(?:user|login|account) )?["']?[^\s:"']+["']?(:| is)\s+`)
	// valueBeside is a name in one place and the word for a value before the other: of
	// iscsiadm, of a list of environment variables, of XML attributes.
	valueBeside = regexp.MustCompile(`(?i)(?:-n|--?name|\b(?:name|key|type|field|id))["'\\]{0,2}(?:[\s=:,]|%3D)+["'\\]{0,2}` + secretName + `["'\\]{0,2}[\s,]+["'\\]{0,2}(?:-o["',\s]+update["',\s]+["']?)?(?:-v|--value|val(?:ue)?)["'\\]{0,2}[\s=:,]+`)
	// scrambling are programs whose flags for a password, scrambled, are those of other
	// things elsewhere.
	scrambling = regexp.MustCompile(`\b(?:openssl|snmp(?:walk|bulkwalk|get|bulkget|set|table))\b`)
	scrambled  = regexp.MustCompile(`[\s"',](?:-k|-K|-A|-X|-c)["']?[\s,=]+`)
	// passwordFlag is a flag whose name alone does not tell that its value is a password.
	passwordFlag = regexp.MustCompile(`(?i)\b(?:sshpass|mysql|mysqldump|mysqladmin|ipmitool|ldapsearch|redis-cli)\b[^|;&\n]*?[\s"',](?:-p|-P|-w|-a)["']?[\s,=]*`)
	// element is the start of an XML element that holds a secret, also where it is escaped.
	element = regexp.MustCompile(`(?i)((?:<|&lt;|\\u003c)(?:[a-z0-9_.\-]+:)?` + secretName + `(?:\s[^<>]*?)?(?:>|&gt;|\\u003e)(?:<!\[CDATA\[)?)[^<&\\\]]+`)
	// named is the start of an XML element one of whose attributes says that it holds a secret.
	named = regexp.MustCompile(`(?i)((?:<|&lt;|\\u003c)[a-z0-9_.:\-]+\s(?:[^<>]*?\s)?[a-z0-9_.:\-]+=\\?["']` + secretName + `\\?["'][^<>]*?(?:>|&gt;|\\u003e)(?:<!\[CDATA\[)?)[^<&\\\]]+`)
	// piped and given are a text that a shell hands to a program that asks for a password.
	piped = regexp.MustCompile(`(\b(?:echo|printf)(?:\s+-[ne]+)?\s+)[^|]+?(\s*\|\s*(?:sudo|cryptsetup|passwd|chpasswd|su)\b)`)
	given = regexp.MustCompile(`(<\((?:echo|printf)(?:\s+-[ne]+)?\s+)[^)]+`)
	// hereString is a text that a shell hands to a program as its input.
	hereString = regexp.MustCompile(`(<<<\s*["']?)[^\s"'<]+`)
	// positional is a password that an argument is by its place.
	positional = regexp.MustCompile(`(?i)(\bsmbclient\s+(?://|\\+)\S+\s+|\bnet use\s+(?:[a-z*]:?\s+)?\\+\S+\s+)[^\s/\-]\S*`)
	// ticket is what a program is known by after its login, and what is so short that its name
	// means it only beside "=".
	ticket = regexp.MustCompile(`(?i)((?:^|[^a-z0-9])(?:[a-z0-9_\-]*session|_?sid|pin|otp)=["'\\]{0,2})[^\s;&,"']+`)
	// encoded is a text in base64 that says so.
	encoded = regexp.MustCompile(`(\bbase64[:,]\s*)[A-Za-z0-9+/=_\-]{12,}`)
	// numbered is one of the keys that open a vault together.
	numbered = regexp.MustCompile(`(?i)(\b(?:unseal|recovery) key [0-9]+:\s*)\S+`)
	// cookieJar is a list of cookies by name.
	cookieJar = regexp.MustCompile(`(?i)(\bcookies["'\\]{0,2}\s*[:=]\s*(?:map\[|[{\[]))[^}\]]+`)
	oracle    = regexp.MustCompile(`(jdbc:oracle:[a-z]+:[^/\s]+/)[^@\s]+@`)
	cookies   = regexp.MustCompile(`(?i)(\b(?:set-)?cookie2?["'\\]{0,2}\s*[:=]\s*["'\[\\]{0,3})[^\s=;,"'\]]+=[^\s;,"'\]]*(?:;\s*[^\s=;,"'\]]+(?:=[^\s;,"'\]]*)?)*`)
	smbUser   = regexp.MustCompile(`((?:^|[\s"'\[,])(?:-U|--user|--username)["']?[,=]?\s*["']?[^\s%"']*%)[^\s"']+`)
	// spokenBefore is a name and its value in a sentence.
	spokenBefore = regexp.MustCompile(`(?i)\b(` + secretName + `|cookie)["'\\]{0,2}\s+(?:(is|was|as|to|of|equals|set to)\s+)?`)
	scheme       = regexp.MustCompile(`(?i)\b(?:bearer|basic|negotiate)\s+[A-Za-z0-9._~+/=\-]{6,}`)
	shapes       = regexp.MustCompile(`\beyJ[A-Za-z0-9_\-]{6,}\.[A-Za-z0-9_\-]+(?:\.[A-Za-z0-9_\-]*)*|\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}\b|\bgh[pousr]_[A-Za-z0-9]{16,}|` +
		`\bxox[abeoprs]-[A-Za-z0-9\-]+|\bya29\.[A-Za-z0-9_.\-]+|\bAIza[A-Za-z0-9_\-]{30,}|\bglpat-[A-Za-z0-9_\-]{10,}|` +
		`\bgithub_pat_[A-Za-z0-9_]{16,}|\bhv[sbr]\.[A-Za-z0-9_\-]{16,}|\bs\.[A-Za-z0-9]{24}\b|\bAQ[A-Za-z0-9+/]{24,}==|\b(?:LTAI|AKID)[A-Za-z0-9]{12,}\b|` +
		`\b(?:FwoG|IQoJ|FQoG|AQoD)[A-Za-z0-9+/=_%\-]{24,}|[A-Za-z0-9_~.]{3}8Q~[A-Za-z0-9._~\-]{30,}|LS0tLS1CRUdJT[A-Za-z0-9+/=]{20,}|\b(?:npm_|dckr_pat_|glsa_|sk_live_|dop_v1_)[A-Za-z0-9_\-]{16,}|` +
		`\bsk-[A-Za-z0-9_\-]{20,}|\bhooks\.slack\.com/services/[A-Za-z0-9/]+|\bSG\.[A-Za-z0-9_\-]{16,}\.[A-Za-z0-9_\-]{16,}|\$(?:1|2[aby]|5|6|y)\$[./A-Za-z0-9$=,]{16,}`)
	// lacking stands before the name of a key that the kubelet does not find.
	lacking     = regexp.MustCompile(`non-existent (?:secret|config) $`)
	hostAndPort = regexp.MustCompile(`^[A-Za-z0-9.\-\[\]:]*?(?::[0-9]+)?$`)
)

// redactAddress takes user and password out of "scheme://user:password@". A
// password may have an "@" or a "/" that should have been escaped; a path may
// have an "@", too.
func redactAddress(address string) string {
	at := strings.Index(address, "://") + len("://")
	if host, _, hasPath := strings.Cut(address[at:], "/"); hasPath && isHost(host) {
		return address
	}
	return address[:at] + redacted + "@"
}

// isHost: "user:12" could be a host with its port; a name with another thing
// after the colon cannot.
func isHost(s string) bool {
	host, port, ok := strings.Cut(s, ":")
	return hostAndPort.MatchString(s) && (!ok || strings.HasPrefix(host, "[") || strings.Trim(port, "0123456789") == "")
}

// redactLogin takes the password out of "user:password@host", and leaves the
// digest of an image.
func redactLogin(login string) string {
	user, rest, _ := strings.Cut(login, ":")
	i := strings.LastIndexByte(rest, '@')
	if host := rest[i+1:]; host == "sha256" || host == "sha512" {
		return login
	}
	return user + ":" + redacted + rest[i:]
}

// plainOptions of mount say how to mount and nothing about who does.
var plainOptions = []string{
	"vers", "nfsvers", "minorversion", "proto", "port", "mountport", "timeo", "retrans", "rsize", "wsize", "sec", "mode", "uid", "gid", "file_mode", "dir_mode",
	"size", "context", "fscontext", "defcontext", "rootcontext", "x-mount.mkdir", "lookupcache", "acregmin", "acregmax", "acdirmin", "acdirmax", "actimeo",
	"accesspoint", "mds_namespace", "fs", "cache",
}

func redactOptions(text string) string {
	start := strings.Index(text, "-o") + len("-o")
	options := strings.Split(text[start:], ",")
	for i, option := range options {
		name, _, ok := strings.Cut(option, "=")
		if ok && !slices.Contains(plainOptions, strings.TrimLeft(name, ` "'`)) {
			options[i] = name + "=" + redacted
		}
	}
	return text[:start] + strings.Join(options, ",")
}

// redactValues redacts the value after each match.
func redactValues(message string, before *regexp.Regexp) string {
	var b strings.Builder
	done := 0
	for _, match := range before.FindAllStringSubmatchIndex(message, -1) {
		at := match[1]
		if at <= done && done > 0 {
			continue
		}
		start, end := value(message, at)
		spaced := (before == nameBefore || before == nameFor) && strings.HasSuffix(message[:match[5]], ":") && at > match[5]
		if start == end || spaced && start == at && isProse(message[match[2]:match[3]], message[start:end], message[end:]) {
			continue
		}
		if before == nameBefore && lacking.MatchString(message[:match[2]]) {
			continue // the kubelet names the key that a Secret or a ConfigMap lacks
		}
		if before == nameFor && !isSpokenValue("password", message[start:end], start > at, true) {
			continue
		}
		if before == flagBefore && (message[start] == '-' || strings.Trim(lineEnds.Replace(message[start:end]), ".+") == "") {
			continue // another flag, or where a shell has cut its line off
		}
		b.WriteString(message[done:start])
		b.WriteString(redacted)
		done = end
	}
	b.WriteString(message[done:])
	return b.String()
}

// lineEnds are the ends of lines in a text that was quoted.
var lineEnds = strings.NewReplacer(`\r`, "", `\n`, "")

// redactSpoken redacts the value that follows a name in a sentence, where it can be one.
func redactSpoken(message string) string {
	var b strings.Builder
	done := 0
	for from := 0; ; {
		match := spokenBefore.FindStringSubmatchIndex(message[from:])
		if match == nil {
			break
		}
		name, linked, at := message[from+match[2]:from+match[3]], match[4] >= 0, from+match[1]
		start, end := value(message, at)
		from = at
		if start == end || !isSpokenValue(strings.ToLower(name), message[start:end], start > at, linked) {
			continue
		}
		b.WriteString(message[done:start])
		b.WriteString(redacted)
		done, from = end, end
	}
	b.WriteString(message[done:])
	return b.String()
}

// isSpokenValue reports whether the text after the name, which is in lower case, can be its
// value. What follows the word password is, unless it is a word that sentences go on with.
// What follows another name must look as if it was made by chance: and the names of Secrets,
// keys and objects, which error messages quote, are in lower case with dashes and dots.
func isSpokenValue(name, text string, quoted, linked bool) bool {
	if !strings.ContainsFunc(text, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) || strings.HasPrefix(text, redacted) {
		return false
	}
	if strings.Contains(name, "passw") || strings.Contains(name, "passphrase") || strings.Contains(name, "pwd") {
		if quoted {
			return true
		}
		lower := strings.ToLower(text)
		return !slices.Contains(proseWords, lower) && !slices.Contains(afterPassword, lower)
	}
	if objectName.MatchString(text) && (!strings.Contains(name, "token") || strings.ContainsAny(text, "-./")) && !uuid.MatchString(text) {
		return false
	}
	return madeByChance(text) || quoted && linked
}

var (
	objectName = regexp.MustCompile(`^/?[a-z0-9][a-z0-9.\-/_:]*(?:=[a-z0-9.\-_]+)?$`)
	uuid       = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
)

// madeByChance reports whether letters and digits, or many letters of both cases, are mixed.
func madeByChance(text string) bool {
	digit, lower, upper := strings.ContainsAny(text, "0123456789"), strings.ToUpper(text) != text, strings.ToLower(text) != text
	return len(text) >= 8 && digit && (lower || upper) || len(text) >= 24 && lower && upper
}

// afterPassword are words with which a sentence goes on that has said "password".
var afterPassword = []string{
	"and", "are", "as", "at", "auth", "authentication", "based", "but", "by", "can", "change", "changed", "check", "contains", "does", "empty", "entered", "entry", "field", "file", "for", "found",
	"from", "given", "has", "hash", "have", "if", "in", "incorrect", "into", "key", "length", "login", "mismatch", "of", "on", "option", "or", "parameter", "policy", "prompt", "protected", "provided",
	"rejected", "required", "reset", "rotation", "secret", "set", "should", "specified", "supplied", "than", "that", "then", "to", "too", "used", "using", "via", "when", "which", "will", "with", "would",
	"user", "users", "account", "verification", "may", "might", "does", "did", "doesn't", "isn't", "it", "this", "value", "mechanism", "manager", "exchange", "credentials", "correct", "still",
}

// value is where the value lies that begins at the place: up to its closing
// quote, or as far as a word goes.
func value(message string, at int) (start, end int) {
	start = at
	for start < len(message) && message[start] == '\\' {
		start++
	}
	if block := blockScalar.FindString(message[start:]); block != "" {
		start += len(block)
		return start, start + wordLength(message[start:])
	}
	if start < len(message) && strings.IndexByte("[{", message[start]) >= 0 {
		return start, closing(message, start)
	}
	if strings.HasPrefix(message[start:], "$'") {
		start++
	}
	if start < len(message) && strings.IndexByte("\"'`", message[start]) >= 0 {
		quote := message[start]
		start++
		length := strings.IndexByte(message[start:], quote)
		for length > 0 && start+length+1 < len(message) && message[start+length+1] == quote { // doubled, it stands for itself
			more := strings.IndexByte(message[start+length+2:], quote)
			if more < 0 {
				length = more
				break
			}
			length += 2 + more
		}
		if length < 0 {
			length = len(message) - start
		}
		return start, start + len(strings.TrimRight(message[start:start+length], `\`))
	}
	end = at + wordLength(message[at:])
	switch strings.ToLower(message[at:end]) {
	case "bearer", "basic", "negotiate", "token", "digest":
		if next := strings.TrimLeft(message[end:], " "); next != "" {
			skipped := len(message) - len(next)
			end = skipped + wordLength(next)
		}
	}
	return at, end
}

// blockScalar is how YAML begins a text of several lines.
var blockScalar = regexp.MustCompile(`^[|>][-+0-9]*[ \t]*(?:\n|\\n)\s*`)

// closing is where what the bracket at start opens ends, behind the bracket that closes it.
// Where none does, it is where the word ends.
func closing(message string, start int) int {
	depth := 0
	for i := start; i < len(message); i++ {
		switch message[i] {
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return start + max(1, wordLength(message[start:]))
}

// wordLength is the length of the word that the text begins with, without what closes
// the bracket that it stands in.
func wordLength(text string) int {
	n := strings.IndexAny(text, " \t\r\n,;&\"'`")
	if n < 0 {
		n = len(text)
	}
	return len(strings.TrimRight(text[:n], ")]}:."))
}

// proseWords follow "token: " and the like in sentences.
var proseWords = []string{
	"rpc", "error", "errors", "failed", "failure", "cannot", "could", "unable", "the", "a", "an", "no", "not", "is", "was", "must", "missing", "invalid", "unexpected",
	"unknown", "expired", "wrong", "permission", "access", "context", "dial", "timeout", "timed", "request", "response", "server", "connection", "open", "stat",
	"read", "write", "lookup", "exit", "code", "status", "internal", "unauthorized", "forbidden", "denied", "operation", "volume", "node", "x509", "tls", "json", "yaml", "eof",
}

// isProse reports whether what follows "name: " is no value but the next word of a
// sentence: "failed to get token: rpc error". A password is more often a plain
// word than a token or a key is.
func isProse(name, value, rest string) bool {
	if slices.Contains(proseWords, strings.ToLower(value)) {
		return true
	}
	if name = strings.ToLower(name); strings.Contains(name, "pass") || strings.Contains(name, "pwd") || strings.HasSuffix(name, "pw") {
		return false
	}
	return strings.HasPrefix(rest, " ") && strings.Trim(value[1:], "abcdefghijklmnopqrstuvwxyz") == "" && letter(value[0])
}

func letter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

// redactScheme redacts what follows "Bearer", unless it is a word of a sentence.
func redactScheme(text string) string {
	name, credentials := text[:strings.IndexAny(text, " \t\r\n")], strings.TrimLeft(text[strings.IndexAny(text, " \t\r\n"):], " \t\r\n")
	if strings.Trim(credentials[1:], "abcdefghijklmnopqrstuvwxyz.-") == "" {
		return text
	}
	return name + " " + redacted
}

// login is the user in what an API server says of a missing right.
var login = regexp.MustCompile(`\b(User|user) "([^"]*)"`)

// denied is the name of a user, which is no secret although it may look like one, such as
// "oidc:jane@example.com".
var denied = regexp.MustCompile(`\bforbidden: User "([^"]+)" cannot `)

// Asker is who asked, in what an API server says of a missing right; "" where it does not say.
func Asker(message string) string {
	if m := login.FindStringSubmatch(message); m != nil && m[2] != redacted {
		return m[2]
	}
	return ""
}

// RedactUser is Redact, and takes out who asked.
func RedactUser(message string) string {
	return Redact(login.ReplaceAllString(message, `$1 "`+redacted+`"`))
}
