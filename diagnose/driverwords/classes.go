package driverwords

import (
	"regexp"
	"slices"
	"strings"
)

// class is a kind of error that plain English words show, whoever writes them. The words are
// compared with Message.Rest.
type class struct {
	meaning Meaning
	words   *regexp.Regexp
}

// Parts of the classes' words.
const (
	machine = `(?:nodes?|hosts?|instances?|machines?|vms?|vmi|servers?|droplets?|linodes?|compute)`
	volume  = `(?:volumes?|disks?|images?|shares?|luns?|file ?systems?|buckets?|pvcs?|pvs?|datasets?|zvols?|containers?|devices?|resources?|snapshots?)`
	few     = `.*?`
	// inState is what stands before the name of a state. "error creating" is no state.
	inState = `(?:^|\b(?:is|are|was|were|be|being|still|currently|status|state|phase|in|transient)(?: is| =|=)? )`
)

func of(meaning Meaning, words ...string) class {
	return class{meaning, regexp.MustCompile(`(?:^|[^a-z0-9])(?:` + strings.Join(words, "|") + `)(?:$|[^a-z0-9])`)}
}

// classes are tried in their order: unambiguous words come before words that also stand in other
// errors. missing reads what is not found, after certain and before likely.
var (
	certain = []class{
		of(NodeRefused, `[a-z]+-(?:disk|partition\w*|volume) access (?:is )?denied`),
		of(ChangedLately, `maximum modification rate`, `wait at least \d+ (?:hours|minutes)`, `(?:more than )?once (?:in|every|per|within) \d+ (?:hours|minutes)`),
		of(WrongFilesystem, `unknown file ?system type ceph bluestore`),
		of(ToolMissing, `unknown file ?system type (?:nfs4?|cifs|smb3|ceph|fuse\S*|glusterfs|lustre|beegfs|9p)`, `connect to (?:iscsid|multipathd|rpcbind|statd)`),
		of(PermissionDenied, `authori[sz]ation fail\w*`),
		of(NoFreeDevice, `(?:no|an|any) (?:free|unused|available) (?:loop|nbd|rbd|drbd|minor)(?: \w+)?`),
		of(SessionExists, `could not log ?out`),
		of(WrongFilesystem, `(?:find|found) (?:an? |any )?(?:valid )?(?:(?:ext[234]|xfs|btrfs|vfat|ntfs)(?: file ?system)?|file ?system superblock)`),
		of(GrowRefused, `permission denied to resize file ?system`),
		of(FilesystemTooLarge, `exceeds? (?:the )?size of (?:the )?device`, `file ?system (?:is )?(?:larger|bigger) than (?:its |the )?(?:block )?(?:device|disk|volume|partition)`, `file ?system size mismatch`),
		of(StorageError, `fail\w* to get disk format`),
		of(Throttled, `max(?:imum)? (?:\w+ )*rate`, `too many requests`, `rate ?limit\w*`, `rate exceeded`, `request limit exceeded`, `requests? (?:was |were |is |are |being )?throttled`, `throttl(?:ed|ing)`,
			`too many pending operations`, `operation rate exceeded`, `api rate`),
		of(OutOfSpace, `no space left`, `(?:not enough|insufficient) (?:\w+ )?storage(?: \w+)?`, `(?:not enough|insufficient|no)(?: free)?(?: available)? (?:disk |storage |free )*(?:space|capacity)(?: \w+)*`, `(?:disk|pool|volume|file ?system) (?:is )?full`,
			`no (?:vgs?|volume groups?|(?:\w+ )?pools?) (?:is |are )?available`, `not enough nodes`, `no scheduled replicas?`, `not scheduled`, `pool ran out`),
		of(AttachLimit, `attachments? limit exceeded`, `max(?:imum)?(?: allowed)? (?:number|count|limit) of (?:\w+ )?(?:volumes?|disks?|attachments?|devices?|luns?)(?: \w+){0,3}`, `cannot attach (?:any )?more`,
			`limit (?:of )?(?:\w+ )?attachments?`, `(?:disk|volume|device|attachment)s? limit exceeded `+few+machine, `no (?:free|available) luns?`, `too many (?:volumes?|disks?|attachments?|devices) `+few+`(?:attached|`+machine+`)`,
			`exceeds? `+few+`(?:volume|disk|attach\w*) limit`, `attach(?:ment)?s? `+few+`limit `+few+`(?:reached|exceeded)`, `no more (?:volumes?|disks?|devices?) (?:can|could|may) be attached`,
			`max(?:imum)? (?:[\w-]+ )*(?:volumes?|disks?|attachments?|devices?|luns?) (?:count|number|limit)`, `exceed\w* (?:the )?limit (?:of )?max(?:imum)? (?:[\w-]+ )*(?:volumes?|disks?|devices?)`,
			`all `+few+`slots `+few+`(?:in use|used|taken|occupied)`, `no (?:free|available) `+few+`slots?`, `(?:find|get|allocate) (?:an? |any )?(?:free|unused|available) (?:device )?(?:slots?|names?|letters?|luns?)`),
		of(QuotaReached, `quota`, `limit exceeded`, `limit (?:has been |was |is )?reached`, `exceeded `+few+`limit`, `resource pool exhausted`, `not enough resources`, `insufficient `+few+`(?:quota|resources)`, `out of capacity`,
			`free gid`),
		of(StaleMount, `stale (?:nfs )?(?:file )?handle`, `transport endpoint`, `is not (?:a )?mount ?point`, `path is not mounted`, `restore `+few+`mounts?`, `staging path `+few+`not mounted`, `mkdir <podmount> file exists`, `<podmount> `+few+`(?:endpoint|stale)`, `<globalmount> no such`, `corrupted mount`),
		of(DriverConfig, `<podmount> no such file`, `open <path> no such file`, `staging path `+few+`(?:does not exist|no such)`, `any `+few+`(?:host|backend|array|pool) available`),
		of(FilesystemDamaged, `corrupt(?:ed|ion)?(?: file ?system| superblock| journal)?`, `file ?system `+few+`(?:issues?|damaged|errors?|inconsisten\w+)`, `repair\w* the file ?system`, `bad superblock`, `structure needs cleaning`,
			`fsck found errors`, `(?:file ?system|structure|metadata|journal) `+few+`inconsisten\w+`, `(?:bad|corrupt\w*|primary|secondary|magic|checksum|match) `+few+`super-?blocks?`, `super-?block `+few+`(?:not match|corrupt\w*|bad|damaged)`, `unexpected inconsistency`, `valuable metadata`, `(?:meta)?data corruption`),
		of(WrongFilesystem, `not a valid luks`, `(?:device|disk|<device>) is (?:a )?partition(?:ed)?`, `wrong fs ?type`, `more than (?:1|one) partition`, `(?:multiple|several) partitions`, `already (?:is )?formatted`, `is already formatted`, `(?:already )?has (?:a )?file ?system`, `contains? an? (?:(?:existing |ext[234] |xfs |btrfs )file ?system|(?:existing )?partition table)`, `not unformatted`, `(?:current|existing) format is`, `fs ?type `+few+`(?:mismatch|not match)`, `file ?system type `+few+`not match`,
			`(?:different|unknown|unsupported|other|wrong)(?: \S+)? file ?systems?(?: type)?`, `formatted with `+few+`file ?system`),
		of(ZoneMismatch, `zone ?mismatch`, `(?:different|wrong|other|another|not in the same|same) (?:availability )?(?:zone|region|domain|datacenter|data center|location)`, `for (?:the )?requested topology`, `topolog(?:y|ies) `+few+`(?:fulfilled|mismatch|not match\w*|satisf\w+|found|accessible)`,
			`needs to be in `+few+`(?:zone|region)`, `owned by (?:a )?different node`, `select a node`, `no nodes? with the storage`, `accessible topolog\w+`, `not accessible from (?:the )?`+machine),
		of(PathsMissing, `(?:no|not|un\w+|fail\w*|cannot|could not|expected|without|loss of|lost|missing|incomplete|valid|multiple|only one) `+few+`(?:initiators?|iscsi (?:sessions?|hosts?|targets?|devices?|portal)|nvme (?:session|target|subsystem|devices?)|fibre channel|fc (?:host|port|initiators?)|multipath device|target ports?|paths? to the storage|portals?|sessions?)`,
			`(?:initiators?|iscsi (?:session|login|target)|multipath device|multipath|target wwn|wwn|portal|nvme connect) `+few+`(?:fail\w*|incomplete|no route|unavailable|mismatch|different|other than|not established|is down)`,
			`fail\w* to login`, `target iqn`),
		of(ToolMissing, `executable file not found`, `command not found`, `cannot execute`, `(?:tools?|binary|program|mounters?|utilit(?:y|ies)|package|dependency|kernel module|helper|multipathd|iscsid|rpcbind|statd) `+few+`(?:not found|missing|not running|not installed|not exist|not loaded|no such file|found on system)`,
			`(?:install|load|start|need) (?:the )?(?:\S+ ){1,3}(?:first|package|tools?|module|helper)`, `(?:no|missing|import|without) `+few+`(?:mounters?|dependency|tools?|kernel module|client|binary|executable)`, `does not support (?:nvme|iscsi|fc)`,
			`nsenter (?:cannot|failed)`, `(?:nvme-fabrics|modprobe) `+few+`(?:no such file|not found|fail\w*|fatal)`, `kernel driver not loaded`),
		of(DeviceBusy, `(?:device|target|mount ?point|mount|luks|map|partition|directory|umount|unmount\w*|path|dm-\d+|mapper) `+few+`(?:busy|still in use|in use|already mounted|conflicting mount|mounts still present|still present|other target|strange state|not be unmounted)`,
			`already (?:mounted|published|staged) (?:at|on|in|elsewhere|to a different target)`, `at a different target path`, `mounted elsewhere`, `(?:device|target) is busy`, `mounted at more than one place`, `holders? of the device`, `in use by the system`, `map in use`, `mounted file ?system`),
		of(ReadOnly, `with different options`, `mode does not match`, `already published `+few+`(?:incompatible|different)`),
		of(AttachedElsewhere, `(?:attached|mapped|published|mounted|exported|assigned|bound|locked|claimed|opened|used|in ?use|owned|shared|held) .*?(?:another|other|different|wrong|multiple|second|more than one) .*?`+machine,
			volume+` `+few+`(?:is |was |are |been |currently |still )?already (?:being )?(?:attached|mapped|published|assigned|in ?use|exported|used)`, `already (?:attached to|mapped to|assigned to|connected to|owned by) (?:an? )?`+few+machine, `access (?:the )?(?:file|disk) `+few+`locked`,
			`in use by another`, `(?:used|locked|opened|held|owned|claimed) by (?:an?other|a different|some other|a dead|dead) (?:\w+ )?(?:client|process|user|owner|session|initiator)`, `used by another`, `current (?:status|state) (?:is |= ?)?in-?use`, `(?:resource|volume|disk|image|lun|disk resource) (?:is |are )?(?:currently |still )*(?:being )?(?:used|in ?use)(?: by| on| at)?`, `still (?:being )?(?:used|mounted|attached|mapped|exported) `+few+`(?:on|by|to) `+few+machine,
			`(?:is|are) still (?:being )?used`, `currently in in-use`, `volume in use`, `two other resources`, `resources? already in ?use`, `multiple (?:masking )?(?:views|attachments)`, `other hosts have access`, `only accessible to nodes`,
			`(?:different|another|other) .*?(?:host|node|instance|vm|server|machine|lun mapping|attachment)s?`, `(?:volume|disk) is attached`, `(?:volume|disk) (?:\S*[\d<>.-]\S* )?(?:is )?currently attached`, `has watchers`, `watchers?=`, `detach (?:the )?(?:volume|it|disk) (?:first|to fix)`,
			`exclusive(?:ly)? (?:lock|attached)`, `reservation conflict`, `fail\w* to acquire `+few+`(?:lock|reservation)`, `multi-?attach`, `held by another`, `attached to the wrong`, `mutually shared`),
		of(BackendBusy, `(?:is|are|being|currently|was) (?:currently )?(?:detaching|attaching|detached|modified|deleted|resized|removed|flattened|expanded|cloned|migrated|restored)(?: from| to| at)?`, `(?:removal|flatten|deletion|detach\w*|migration|rebuild|resize|expansion) (?:is )?(?:still )?in progress`,
			`not yet attached`, `still attached`, `status must be`, `in optimizing`, volume+` `+few+`busy`, `to get detached`, `being detached`, `being deleted`, `is still in use by`, `was attaching`, `was detach(?:ed|ing)`),
		of(BackendStuck, `stuck`, `error[_ ]?(?:detaching|attaching|deleting|extending)`, `user_?action_?required`, `power off and`, `unknown_error`),
		of(MachineFailed, `while it is in vm state`, `instance `+few+`is in an invalid state for`, `incorrect instance state`, `instance `+few+`is not running`),
		of(MachineBusy, `(?:server|instance|vm|droplet|machine|virtual machine) `+few+`(?:locked|pending action|task_state|task state|being \w+|preempted|provisioning state|another task|another operation)`, `operation execution has been preempted`, `while it is in task state`),
		of(OperationPending, `operation `+few+`(?:already exists|already in progress|is in progress|in progress|ongoing|already running|still running|pending)`, `already (?:being )?(?:process(?:ed|ing)|in progress|running)`, `(?:already|another|pending|concurrent) (?:an )?operation`,
			`(?:update|creation|job|task|request|transaction) `+few+`(?:in progress|ongoing|underway)`, `waited too long for the lock`, `try again later`, `busy, status`, `lock (?:already )?(?:held|acquired|taken)`),
		of(BackedOff, `back(?:ing)?[- ]?off`),
		of(Unreachable, `un ?reachable`, `(?:protocol|address) family (?:is )?not supported`, `not reachable`, `no `+few+`connection`, `(?:could|can|does|did|was) ?not (?:be )?(?:connect|reach|resolve)\w*`, `no route`, `connection (?:was )?(?:refused|reset|timed out|timeout|aborted|closed)`, `fail\w* to (?:resolve|connect|dial|reach)`, `name resolution`, `no such host`,
			`name or service not known`, `server misbehaving`, `i o timeout`, `tls handshake`, `host is down`, `target ip address`, `unable (?:to )?(?:connect|reach|resolve|get basic system info)`, `network is (?:down|unreachable)`, `connection lost`, `lost connection`),
		of(EncryptionKey, `passphrase`, `luks (?:open|key|header|device|volume|format\w*)`, `kms`, `encryption key`, `customer ?key\w*`, `key (?:has |is |was )?(?:been )?(?:revoked|disabled|expired|unavailable)`, `no key available`, `decrypt\w*`),
		of(DriverUnavailable, `(?:driver|controller|service|plugin|engine|daemon|agent|provider|registration|lvmd|sidecar|backend) .*?(?:not (?:been )?(?:ready|initiali[sz]ed|probed|running|working|deployed|available|online|serving|registered)|initiali[sz]ing|starting|still in progress|does not working|not_serving|is down)`,
			`has not been (?:initiali[sz]ed|probed)`, `connection problem`, `transport is closing`, `no plugin`, `image (?:\S+ ){1,4}is not deployed`, `nodes? .*?(?:not ready|not online)`),
		of(NotRegistered, `csi ?node `+few+`not contain`, `node ?id annotation`, `registered csi drivers`, `driver `+few+`not (?:been )?registered`),
		of(PermissionDenied, `(?:access|permission|request|login|mount) `+few+`denied`, `^denied$`, `permission denied`, `forbidden`, `un ?authori[sz]ed(?: operation)?`, `not authori[sz]ed`, `not (?:have|has) (?:the )?(?:permission|authori[sz]ation|privilege|access|rights?)`, `authentication (?:fail\w*|error|required)`, `auth\w* (?:fail\w*|error)`, `fail\w* to authenticate`,
			`credentials? (?:error|invalid|expired|rejected)`, `(?:invalid|wrong|bad|expired|provide) (?:\w+ )?(?:credentials?|password|token|signature|login)`, `(?:operation )?not permitted`, `permission (?:problem|error)`, `no key for`, `missing role`, `no (?:\w+ ){0,3}role found`, `(?:refresh|get|load|find) (?:\w+ )?credentials`, `log ?o[nu] fail\w*`, `insufficient (?:privileges?|permissions?|rights)`, `access rules?`, `access rights`, `session obtained`),
	}
	likely = []class{
		of(PathTooLong, `(?:paths?|file ?names?) (?:(?:is|was|are|length) )*(?:too long|exceeds?|longer than)`),
		of(ReadOnly, `read[- ]?only`, `ro but `+few+`rw`, `not primary`, `write-?protected`),
		of(AccessType, `access (?:type|mode)s?`, `block (?:volumes?|access|device)s? (?:\w+ )*(?:not supported|unsupported)`, `non-?block`, `volume ?(?:capability|mode)`, `multi-?(?:node|writer)\w*`, `shared access`, `read ?write ?(?:many|once)\w*`, `rw[xo]`, `as block`, `block volume`),
		of(NodeIncompatible, `(?:instance|machine|vm|node|server) ?types? (?:\S+ )?does not support`, `(?:not (?:a )?|in)compatible .*?(?:with|node|machine|instance|disk|pool)`, `(?:unsupported|not supported) .*?(?:`+machine+`|feature|kernel|by `+machine+`|on )`, `fault ?not ?supported`, `(?:disk|volume|instance|machine) type `+few+`(?:not supported|(?:cannot|can not) be used)`, `kernel (?:is )?too old`, `only (?:be )?(?:used |supported |attached |available )?(?:with|on|by|to) `+few+machine, `unknown property`, `rpc version mismatch`, `protocol (?:is )?not supported`, `too many open files`,
			`incompatible node`, `unsupported (?:krbd |image )?features?`),
		of(BadParameters, `availability zones? (?:\S+ )?(?:is |was )?(?:invalid|not valid)`, `tags? (?:is |are |was |were )?not (?:fulfilled|satisfied|matched)`, `only dynamically provisioned`, volume+` ?(?:id|handle|name|context|attributes?|capabilit(?:y|ies)|path) (?:is |was )?(?:invalid|malformed|not valid|empty)`),
		of(VolumeFailed, volume+` `+few+`(?:is |in |state |status |got |= )(?:an? )?(?:error|failed|faulted|offline|unexpected|invalid|degraded|inactive|unhealthy|crashed)`, `(?:error|failed|unexpected|invalid) ?(?:(?:share|volume|disk|pool|provisioning|image) )?(?:state|status)`, volume+` `+few+`not online`, `no (?:online|healthy|deployed) replicas?`, `requires `+few+`before being attached`, `task failed`, `invalid ?state`),
		of(NotAttached, `not (?:been |yet )*(?:attached|published|mapped|connected|assigned|exported)`, `has not been (?:attached|published)`, `is detached`, `no `+few+`attachments?`, `publish ?context `+few+`(?:missing|empty|required|not)`, `(?:missing|required|must be|not) `+few+`publish ?context`, `already detached`),
		of(DeviceMissing, `(?:device|disk|lun|block device|device path|path|drive)s? .*?(?:timed? ?out|within timeout|not (?:ready|appear|show|exist|visible|attached|same|connected|ready|verified)\w*|disappeared|gone)`, `(?:fail\w*|error|unable|not able|cannot|could not) (?:to |when |while )?(?:find|get|getting|determine|resolve|wait for|locate|verify(?:ing)?|lookup) (?:(?:[^\so]\S*|o[^\sf]\S*) ){0,3}?(?:device|device path|disk path|lun|sys device)s?`, `no (?:device )?path`, `no medium`, `find disk by lun`),
		of(VolumeNotReady, `not (?:yet |been )*(?:ready|available|provisioned|in valid state|initiali[sz]ed)`, `transient`, volume+` `+few+`to be (?:bound|ready)`, inState+`creating`, `no info about`, `is not (?:yet )?bound`, `in phase pending`, `not (?:yet )?become ready`),
		of(BadParameters, `(?:parameter|attribute|property|argument|field|option|key|value|id|class|source|endpoint|protocol|request|type|information|address|name|path|url|info|volume id)s? .*?(?:missing|required|invalid|not (?:set|supported|specified|provided|valid|allowed|a directory)|unknown|unsupported|mismatch|empty|is required)`,
			`(?:invalid|missing|unknown|unsupported|illegal|malformed|incorrect|bad|required|empty|mismatch\w*) .*?(?:parameters?|attributes?|arguments?|options?|values?|fields?|types?|keys?|id|ip|provider|format|input|name|annotation|info)`, `is a required`, `error parsing`, `fail\w* to (?:parse|initiali[sz]e)`, `could not (?:parse|split)`, `should (?:at least )?(?:contain|be)`, `must (?:be|have|contain|start|not)`, `parameter mismatch`, `exceeds? (?:the )?maximum size`, `larger than max\w*`, `no `+few+`(?:was )?specified`, `different protocol`),
		of(DriverConfig, `config(?:uration)?(?:uration| map)?s? .*?(?:missing|not|lacks|invalid|empty|error|no)`, `(?:missing|invalid|empty|wrong|fetching|no|bad) .*?config(?:uration)?s?`, `(?:is |are )?(?:disabled|not enabled|undefined)`, `environment variable`, `allowed list`, `variable`, `domain labels?`, `monitor list`, `feature switch`),
		of(TimedOut, `timed? ?out`, `deadline exceeded`, `context canceled`, `within the al+ot+ed time`, `max retry count`, `retries exhausted`, `not complete(?:d)? in time`, `too long`),
		of(StorageError, `input output error`, `(?:read|write) super-?block`, `i o errors?`, `medium error`),
	}
)

// missing is the class of objects that are not found. The meaning depends on the nearest noun,
// before the words as in "node n1 not found" or behind them as in "could not find node n1".
var (
	absentAfter  = regexp.MustCompile(`\b(?:(?:is |was |were |be |could be )?not (?:be )?found|notfound|(?:does|do|did) not exist|not exist(?:ent)?|no longer exists?|(?:could not|cannot) be found|is missing|has been deleted|is deleting|missing|no such file or directory|file does not exist|(?:is |was )?not known|not registered|not in the list)\b`)
	absentBefore = regexp.MustCompile(`\b(?:(?:could|can|did|does) ?not (?:find|retrieve|get|look ?up|locate|determine)|(?:cannot|unable to|not able to|failed to|error|failed) (?:find(?:ing)?|retriev(?:e|ing)|get(?:ting)?|fetch(?:ing)?|load(?:ing)?|look(?:ing)? ?up|locat(?:e|ing)|discover(?:ing)?|determin(?:e|ing))|no such|non-?existent|found 0|missing|no matching|received empty)\b`)
	// notGot is a failed request for an object. The reason stands behind it, and need not be that
	// the object is missing.
	notGot = regexp.MustCompile(`\b(?:retriev(?:e|ing)|get(?:ting)?|fetch(?:ing)?|load(?:ing)?|look(?:ing)? ?up|determin(?:e|ing)|error|failed)$`)
	nouns  = regexp.MustCompile(`\b(?:(?:volume )?attachments?|mappings?|assignment|secrets?|config ?maps?|passwords?|credentials?|account ?keys?|account ?names?|user ?ids?|user ?keys?|multipath devices?|target ports?|device paths?|disk paths?|block devices?|virtual ?machines?|volume ?snapshots?|secret provider ?class|(?:volume ?snapshot|storage|device|volume attributes)[ -]?class(?:es)?|cluster id|persistent volume claims?|persistent volumes?|boot volume|volume id|logical ?volumes?|block storage|storage volume|file ?systems?|share id|datastores?|volume context|provider ?id|disks? on lun|` +
		`nodes?|hosts?|instances?|machines?|vms?|vmi|servers?|droplets?|linodes?|compute|sdc|volumes?|disks?|images?|shares?|buckets?|pvc|pv|lv|dataset|zvol|pools?|containers?|snapshots?|devices?|luns?|dm|initiators?|sessions?|targets?|portals?|wwns?|paths?|hba|tools?|binary|modules?|program|dependency|config(?:uration)?|backends?|domain labels|variable|zones?|regions?|topology|topologies|parameters?|attributes?|fields?|keys?|annotations?|providers?|resources?|objects?|files?|information|fsmeta|export|mount ?points?)\b|<device>`)
	nounMeans = []struct {
		noun    *regexp.Regexp
		meaning Meaning
	}{
		{regexp.MustCompile(`^(?:multipath devices?|target ports?|initiators?|sessions?|targets?|portals?|wwns?|hba)$`), PathsMissing},
		{regexp.MustCompile(`^(?:volume )?attachments?$|^mappings?$|^assignment$`), NotAttached},
		{regexp.MustCompile(`^(?:secrets?|config ?maps?|passwords?|credentials?|account ?keys?|account ?names?|user ?ids?|user ?keys?)$`), SecretMissing},
		{regexp.MustCompile(`^(?:disks? on lun|device paths?|disk paths?|block devices?|devices?|luns?|dm|<device>)$`), DeviceMissing},
		{regexp.MustCompile(`^mount ?points?$`), StaleMount},
		{regexp.MustCompile(`^(?:nodes?|hosts?|sdc|provider ?id)$`), NodeUnknown},
		{regexp.MustCompile(`^(?:virtual ?machines?|instances?|machines?|vms?|vmi|servers?|droplets?|linodes?|compute)$`), NodeUnknown},
		{regexp.MustCompile(`^(?:boot volume|volume id|logical ?volumes?|block storage|storage volume|file ?systems?|share id|datastores?|volume context|volumes?|disks?|images?|shares?|buckets?|lv|dataset|zvol|containers?|fsmeta|export)$`), VolumeNotFound},
		{regexp.MustCompile(`^(?:(?:volume ?snapshot|storage|device|volume attributes)[ -]?class(?:es)?|volume ?snapshots?|pools?|snapshots?)$`), NameNotFound},
		{regexp.MustCompile(`^(?:pvc|pv|persistent volume claims?|persistent volumes?)$`), RecordMissing},
		{regexp.MustCompile(`^(?:tools?|binary|modules?|program|dependency)$`), ToolMissing},
		{regexp.MustCompile(`^(?:config(?:uration)?|backends?|domain labels|variable|cluster id)$`), DriverConfig},
		{regexp.MustCompile(`^(?:zones?|regions?|topology|topologies)$`), ZoneMismatch},
		{regexp.MustCompile(`^(?:parameters?|attributes?|fields?|keys?|information|annotations?|secret provider ?class)$`), BadParameters},
		{regexp.MustCompile(`^(?:resources?|objects?)$`), ObjectNotFound},
	}
)

// clauseEnds are where one clause of an error ends. Each wraps the next one.
var clauseEnds = regexp.MustCompile(`[:.;!?]+ |, | - |\n| err=`)

// advice is a clause that says what to do, not what is wrong.
var advice = regexp.MustCompile(`^(?:please|check|ensure|verify|make sure|try|see|contact|read the|refer|and try|will retry|retrying|action)\b`)

// An error that offers several reasons, joined by "or", is certain about none: the first counts.
var (
	alternative  = regexp.MustCompile(` or access denied\b|, or you may not be authori[sz]ed\b`)
	alternatives = regexp.MustCompile(`, or other error\b`)
)

// fieldRefused is the API server's refusal of a field of an object, and no missing right.
var fieldRefused = regexp.MustCompile(`(is invalid: \S+ )forbidden: `)

// admission is how the API server refuses a write. Only with a user behind it are rights missing;
// else it is a rule, a quota or a limit.
const admission = " is forbidden: "

// classMeans returns the meaning of the plain words, and the words that show it. An error ends in
// its reason, so the last clause with a meaning goes first. A time-out, or a missing field
// without its object, goes last.
func classMeans(rest string) (Meaning, string, bool) {
	rest = alternative.ReplaceAllString(fieldRefused.ReplaceAllString(rest, "$1"), "")
	if object, why, refused := strings.Cut(rest, admission); refused && !strings.HasPrefix(why, "user ") {
		rest = object + ": " + why
	}
	parts := clauseEnds.Split(rest, -1)
	if alternatives.MatchString(rest) {
		parts = []string{rest}
	}
	var weak Meaning
	var words string
	for i := len(parts) - 1; i >= 0; i-- {
		part := strings.TrimSpace(parts[i])
		if part == "" || advice.MatchString(part) {
			continue
		}
		meaning, found, ok := clauseMeans(part, strings.Join(parts[i+1:], " "))
		switch {
		case !ok:
		case meaning == TimedOut || meaning == BadParameters && strings.Count(part, " ") <= 2:
			if weak == "" {
				weak, words = meaning, found
			}
		case meaning == Unreachable && local.MatchString(rest):
			return DriverUnavailable, found, true
		default:
			return meaning, found, true
		}
	}
	return weak, words, weak != ""
}

// local is a connection within the node, without a network.
var local = regexp.MustCompile(`\bdbus\b|\bunix (?:socket )?<(?:path|url)>|\b(?:dial|accept|connect) unix\b`)

// clauseMeans reads one clause of an error; reason is the text behind it.
func clauseMeans(clause, reason string) (Meaning, string, bool) {
	for _, c := range certain {
		if found := c.words.FindString(clause); found != "" {
			return c.meaning, trimmed(found), true
		}
	}
	if meaning, words, ok := missing(clause, reason); ok {
		return meaning, words, true
	}
	for _, c := range likely {
		if found := c.words.FindString(clause); found != "" {
			return c.meaning, trimmed(found), true
		}
	}
	return "", "", false
}

func trimmed(words string) string {
	return strings.Trim(words, " :,.;()[]{}\"'=")
}

// nounsReach is the largest distance of a noun from the words that it was not found.
const nounsReach = 90

func missing(rest, reason string) (Meaning, string, bool) {
	another := reason != "" && !absentAfter.MatchString(reason)
	for _, at := range absentBefore.FindAllStringIndex(rest, -1) {
		tail := rest[at[1]:min(len(rest), at[1]+nounsReach)]
		if noun := nounsIn(tail); len(noun) > 0 {
			meaning, ok := nounMeaning(tail[noun[0][0]:noun[0][1]])
			if meaning == DeviceMissing && strings.Contains(tail[:noun[0][0]], " of ") {
				continue // something of the device is missing
			}
			if another && ofStorage(meaning) && notGot.MatchString(rest[:at[1]]) {
				continue
			}
			if ok && meaning != ObjectNotFound {
				return ofHolder(meaning, rest), trimmed(rest[at[0] : at[1]+noun[0][1]]), true
			}
		}
	}
	for _, at := range absentAfter.FindAllStringIndex(rest, -1) {
		start := max(0, at[0]-nounsReach)
		head := rest[start:at[0]]
		all := nounsIn(head)
		for i := len(all) - 1; i >= 0; i-- {
			if meaning, ok := nounMeaning(head[all[i][0]:all[i][1]]); ok {
				return ofHolder(meaning, rest), trimmed(rest[start+all[i][0] : at[1]]), true
			}
		}
	}
	return "", "", false
}

// ofStorage reports whether the meaning is that a volume or a machine is gone, upon which
// somebody may restore or delete something.
func ofStorage(m Meaning) bool {
	return m == VolumeNotFound || m == NodeUnknown || m == RecordMissing
}

// nounsIn finds the nouns that are whole words, not parts of a name.
func nounsIn(text string) [][]int {
	return slices.DeleteFunc(nouns.FindAllStringIndex(text, -1), func(at []int) bool {
		return at[0] > 0 && strings.ContainsRune("-.<", rune(text[at[0]-1])) || at[1] < len(text) && text[at[1]] == '-'
	})
}

func nounMeaning(noun string) (Meaning, bool) {
	for _, n := range nounMeans {
		if n.noun.MatchString(strings.TrimSpace(noun)) {
			return n.meaning, true
		}
	}
	return "", false
}

// ofHolder is the meaning of a missing field, by the object that should have it.
func ofHolder(meaning Meaning, clause string) Meaning {
	switch {
	case meaning == DriverConfig && strings.Contains(clause, "configmap"):
		return SecretMissing
	case meaning != BadParameters:
		return meaning
	case strings.Contains(clause, "secret") && !strings.Contains(clause, "secret provider"), strings.Contains(clause, "credential"):
		return SecretMissing
	case strings.Contains(clause, "publish context"):
		return NotAttached
	default:
		return meaning
	}
}
