package cmd

import (
	_ "github.com/fatih/color"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/olekukonko/tablewriter"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/rogpeppe/go-internal/txtar"
	_ "github.com/spf13/cobra"
	_ "golang.org/x/term"
	_ "gopkg.in/evanphx/json-patch.v4"
	_ "k8s.io/cli-runtime/pkg/genericclioptions"
	_ "k8s.io/cli-runtime/pkg/printers"
	_ "k8s.io/client-go/kubernetes"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	_ "k8s.io/component-helpers/storage/ephemeral"
	_ "k8s.io/csi-translation-lib"
	_ "pgregory.net/rapid"
	_ "sigs.k8s.io/yaml"
	_ "github.com/schollz/progressbar/v3"
)
