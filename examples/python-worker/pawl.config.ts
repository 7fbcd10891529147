import { definePawl } from "pawl";

// The worker in Python publishes what it makes.
export default definePawl({ assets: [] });
