// Command etcd is the server alone: its own module has replaces, so that it cannot be built by path.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
