package fastjson

import "bytes"

// FirstType is the type of an object where it stands in the first two fields.
func FirstType(raw []byte) (apiVersion, kind []byte, ok bool) {
	next := func(token string) bool {
		raw = bytes.TrimLeft(raw, " \n")
		var found bool
		raw, found = bytes.CutPrefix(raw, []byte(token))
		return found
	}
	value := func() []byte {
		end := bytes.IndexByte(raw, '"')
		if end < 0 || end > 100 {
			return nil
		}
		text := raw[:end]
		raw = raw[end+1:]
		return text
	}
	if !next("{") || !next(`"`) {
		return nil, nil, false
	}
	for i := range 2 {
		if i > 0 && (!next(",") || !next(`"`)) {
			return nil, nil, false
		}
		name := value()
		if !next(":") || !next(`"`) {
			return nil, nil, false
		}
		switch string(name) {
		case "kind":
			kind = value()
		case "apiVersion":
			apiVersion = value()
		}
	}
	return apiVersion, kind, len(kind) > 0 && len(apiVersion) > 0
}
