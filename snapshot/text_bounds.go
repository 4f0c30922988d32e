package snapshot

import "strconv"

// countValues returns the number of fields and items in a JSON value at all depths, and its largest
// depth.
func countValues(raw []byte) (values, deepest int) {
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

// ends are the bytes that end a value, or that, like the backslash of \u0022, may be part of an
// escape that does.
var ends = func() (ends [256]bool) {
	for _, b := range "\":,[]{} \t\r\n\\" {
		ends[b] = true
	}
	return ends
}()

// hasAbsurdNumber reports whether the JSON text contains a number that would keep the decoder of
// resource quantities busy for hours: it writes out 1e-999999999 digit by digit. A few digits with
// a large positive exponent are accepted: they do no harm, and labels hold commits such as 12e4567.
func hasAbsurdNumber(raw []byte) bool {
	const (
		mostDigits         = 64
		mostExponentDigits = 3
		mostExactDigits    = 15 // the limit for digits before a long positive exponent
	)
	var (
		digits, exponentDigits int
		started                bool // a value has begun
		number                 bool // the value may still be a number
		exponent, negative     bool
		previous               byte
	)
	isAbsurd := func() bool {
		return digits > mostDigits || exponentDigits > mostExponentDigits && (negative || digits > mostExactDigits)
	}
	for i := 0; i < len(raw); {
		if started && !number { // skip to the next place where a value may begin
			for i < len(raw) && !ends[raw[i]] {
				i++
			}
			if i == len(raw) {
				break
			}
		}
		b, n := raw[i], 1
		if b == '\\' {
			b, n = unescape(raw[i:])
		}
		i += n
		switch {
		case '0' <= b && b <= '9', b == '.', b == '+', b == '-', (b == 'e' || b == 'E') && number:
			if !started {
				number, started = true, true
				digits, exponentDigits, exponent, negative = 0, 0, false, false
			}
			if !number {
				break
			}
			switch {
			case b == 'e' || b == 'E':
				exponent, exponentDigits = true, 0
			case (b == '-' || b == '+') && exponent && previous != 'e' && previous != 'E':
				number = false // for example a UID
			case b == '-' && exponent:
				negative = true
			case '0' <= b && b <= '9' && exponent:
				exponentDigits++
			case '0' <= b && b <= '9':
				digits++
			}
		case b == '"', b == ':', b == ',', b == '[', b == ']', b == '{', b == '}', b == ' ', b == '\t', b == '\r', b == '\n':
			if number && isAbsurd() {
				return true
			}
			number, started = false, false
		default:
			if number && digits > mostDigits { // 10000...0Ki
				return true
			}
			number, started = false, true
		}
		previous = b
	}
	return number && isAbsurd()
}

// unescape returns the character of a \u escape and the length of the escape. Other escapes cannot
// be part of a number.
func unescape(raw []byte) (byte, int) {
	if len(raw) < 2 || raw[1] != 'u' {
		return 0, min(2, len(raw))
	}
	if len(raw) < 6 {
		return 0, len(raw)
	}
	code, err := strconv.ParseUint(string(raw[2:6]), 16, 16)
	if err != nil || code > 0x7f {
		return 0, 6
	}
	return byte(code), 6
}
