import * as runtime from "pocketquery/runtime";
import { serveSearch } from "pocketquery/search-worker";

serveSearch(self, async () => runtime);
