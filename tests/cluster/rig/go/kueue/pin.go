//go:build pin

// Package pin keeps the command that is built from here among what go.mod requires.
package pin

import _ "sigs.k8s.io/kueue/cmd/kueue"
