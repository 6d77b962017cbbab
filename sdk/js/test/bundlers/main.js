import { show } from "./app.js";
import { runPackaged } from "./packaged.js";

show(runPackaged());
