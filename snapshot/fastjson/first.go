package fastjson

import "bytes"

// FirstType is the type of an object where it stands in the first two fields.
func FirstType(raw []byte) (apiVersion, kind string, ok bool) {
	next := func(token string) bool {
		raw = bytes.TrimLeft(raw, " \n")
		var found bool
		raw, found = bytes.CutPrefix(raw, []byte(token))
		return found
	}
	value := func() string {
		end := bytes.IndexByte(raw, '"')
		if end < 0 || end > 100 {
			return ""
		}
		text := string(raw[:end])
		raw = raw[end+1:]
		return text
	}
	if !next("{") || !next(`"`) {
		return "", "", false
	}
	for i := range 2 {
		if i > 0 && (!next(",") || !next(`"`)) {
			return "", "", false
		}
		name := value()
		if !next(":") || !next(`"`) {
			return "", "", false
		}
		switch name {
		case "kind":
			kind = value()
		case "apiVersion":
			apiVersion = value()
		}
	}
	return apiVersion, kind, kind != "" && apiVersion != ""
}
