// Package rawjson says of a JSON text, before anything decodes it, what it would cost to
// decode, and afterwards why it could not be.
package rawjson

// Shape counts the fields and items of a JSON value at all depths, and says how
// deep they are nested.
func Shape(raw []byte) (values, deepest int) {
	depth := 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			values++
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		case ',':
			values++
		}
	}
	return values, deepest
}
