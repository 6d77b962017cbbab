import "pocketquery/worker-script";
