import "pocketquery/search-worker-script";
