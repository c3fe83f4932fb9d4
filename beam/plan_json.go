package beam

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"strings"
)

// Beam encodes DoFns as JSON, which replaces bytes in strings that are not UTF-8. Names of columns
// and files, and texts for null, may have such bytes. Plans are therefore encoded as gob, and the
// gob as JSON.

// MarshalJSON implements json.Marshaler.
func (p readPlan) MarshalJSON() ([]byte, error) { return gobJSON(p) }

// UnmarshalJSON implements json.Unmarshaler.
func (p *readPlan) UnmarshalJSON(b []byte) error { return fromGobJSON(b, p) }

// MarshalJSON implements json.Marshaler.
func (p groupPlan) MarshalJSON() ([]byte, error) { return gobJSON(p) }

// UnmarshalJSON implements json.Unmarshaler.
func (p *groupPlan) UnmarshalJSON(b []byte) error { return fromGobJSON(b, p) }

// MarshalJSON implements json.Marshaler.
func (p joinPlan) MarshalJSON() ([]byte, error) { return gobJSON(p) }

// UnmarshalJSON implements json.Unmarshaler.
func (p *joinPlan) UnmarshalJSON(b []byte) error { return fromGobJSON(b, p) }

type names []string

// MarshalJSON implements json.Marshaler.
func (n names) MarshalJSON() ([]byte, error) { return gobJSON([]string(n)) }

// UnmarshalJSON implements json.Unmarshaler.
func (n *names) UnmarshalJSON(b []byte) error { return fromGobJSON(b, (*[]string)(n)) }

func gobJSON(plan any) ([]byte, error) {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(plan); err != nil {
		return nil, err
	}
	return json.Marshal(b.Bytes())
}

func fromGobJSON(b []byte, plan any) error {
	var bytesOf []byte
	if err := json.Unmarshal(b, &bytesOf); err != nil {
		return err
	}
	return gob.NewDecoder(bytes.NewReader(bytesOf)).Decode(plan)
}

// printable returns an error with a UTF-8 text. Otherwise Beam would lose both the error and the
// worker.
func printable(err error) error {
	if err == nil {
		return nil
	}
	return &utf8Error{err}
}

// utf8Error is an error with a text that may contain invalid UTF-8.
type utf8Error struct{ error }

// Error implements error.
func (e *utf8Error) Error() string { return strings.ToValidUTF8(e.error.Error(), "\ufffd") }

// Unwrap returns the wrapped error.
func (e *utf8Error) Unwrap() error { return e.error }
