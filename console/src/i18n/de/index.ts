import type { Catalogue } from "..";
import { admin } from "./admin";
import { alerts } from "./alerts";
import { basics } from "./basics";
import { fleet } from "./fleet";
import { people } from "./people";
import { plants } from "./plants";
import { templates } from "./templates";
import { trading } from "./trading";

export const de: Catalogue = {
  ...basics,
  ...fleet,
  ...plants,
  ...alerts,
  ...templates,
  ...trading,
  ...people,
  ...admin,
};
