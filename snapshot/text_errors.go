package snapshot

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
)

// whyUndecodable returns the message of a decoder's error without the names of Go types. It may
// quote the input.
func whyUndecodable(err error) string {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return strings.TrimPrefix(err.Error(), "json: ")
	}
	field := wrong.Field
	if field == "" {
		field = "it"
	}
	found, _, _ := strings.Cut(wrong.Value, " ")
	switch found {
	case "array":
		found = "list"
	case "bool":
		found = "true or false"
	}
	if found != "true or false" {
		found = article(found)
	}
	return field + " must be " + typeForPeople(wrong.Type) + ", not " + found
}

func article(noun string) string {
	if strings.HasPrefix(noun, "o") {
		return "an " + noun
	}
	return "a " + noun
}

func typeForPeople(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	default:
		return "a whole number that fits " + t.Kind().String()
	}
}
