package yamljson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v2"
)

// Parse parses strictly: a key given twice is an error. It uses the parser below
// sigs.k8s.io/yaml, because that package would write out all that aliases repeat before its
// size could be bounded.
func Parse(text []byte) (value any, err error) {
	// No panic of the parser is known; but it is not ours, and the text is a stranger's.
	defer func() {
		if p := recover(); p != nil {
			value, err = nil, fmt.Errorf("yaml: %v", p)
		}
	}()
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.SetStrict(true)
	if err := decoder.Decode(&value); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	// A directive also ends a document, and unmarshalling stops there silently.
	var rest any
	if err := decoder.Decode(&rest); err == nil {
		return nil, errors.New("yaml: a second document without a line of --- before it")
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return value, nil
}

// ErrTooLarge is wrapped by callers that know the place and the limit.
var ErrTooLarge = errors.New("too large")

// JSON writes a parsed document as JSON of at most limit bytes: ten aliases of ten aliases
// are short only in YAML.
func JSON(value any, limit int64) ([]byte, error) {
	w := &jsonWriter{limit: limit}
	w.strings = json.NewEncoder(&w.out)
	w.strings.SetEscapeHTML(false)
	if err := w.value(value); err != nil {
		return nil, err
	}
	return w.out.Bytes(), nil
}

type jsonWriter struct {
	out     bytes.Buffer
	strings *json.Encoder
	limit   int64
}

func (w *jsonWriter) value(value any) error {
	if int64(w.out.Len()) > w.limit {
		return ErrTooLarge
	}
	switch v := value.(type) {
	case nil:
		w.out.WriteString("null")
	case string:
		return w.string(v)
	case bool:
		w.out.WriteString(strconv.FormatBool(v))
	case int:
		w.out.WriteString(strconv.Itoa(v))
	case int64:
		w.out.WriteString(strconv.FormatInt(v, 10))
	case uint64:
		w.out.WriteString(strconv.FormatUint(v, 10))
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%v is no number of JSON", v)
		}
		w.out.WriteString(strconv.FormatFloat(v, 'g', -1, 64))
	case []any:
		return w.list(v)
	case map[any]any:
		return w.object(v)
	default:
		return fmt.Errorf("a value of type %T", v)
	}
	return nil
}

func (w *jsonWriter) string(s string) error {
	if err := w.strings.Encode(s); err != nil {
		return err
	}
	w.out.Truncate(w.out.Len() - 1) // without the encoder's line end
	return nil
}

func (w *jsonWriter) list(values []any) error {
	w.out.WriteByte('[')
	for i, value := range values {
		if i > 0 {
			w.out.WriteByte(',')
		}
		if err := w.value(value); err != nil {
			return err
		}
	}
	w.out.WriteByte(']')
	return nil
}

// object writes the fields sorted: of several errors, always the same one is returned then.
func (w *jsonWriter) object(values map[any]any) error {
	type field struct {
		name  string
		value any
	}
	fields := make([]field, 0, len(values))
	for key, value := range values {
		switch key.(type) {
		case string, bool, int, int64, uint64, float64:
			fields = append(fields, field{fmt.Sprint(key), value})
		default:
			return fmt.Errorf("a key of type %T", key)
		}
	}
	slices.SortFunc(fields, func(a, b field) int { return cmp.Compare(a.name, b.name) })
	w.out.WriteByte('{')
	for i, f := range fields {
		if i > 0 {
			w.out.WriteByte(',')
		}
		if err := w.string(f.name); err != nil {
			return err
		}
		w.out.WriteByte(':')
		if err := w.value(f.value); err != nil {
			return err
		}
	}
	w.out.WriteByte('}')
	return nil
}
