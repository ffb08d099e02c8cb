// Compiled against the types of openapi-typescript: a program that creates a plant and branches on an error's code.
import type { components, operations } from "./schema.js";

type Plant = components["schemas"]["PlantView"];
type Page = operations["listPlants"]["responses"][200]["content"]["application/json"];
type NewPlant = operations["createPlant"]["requestBody"]["content"]["application/json"];
type Refusal = operations["createPlant"]["responses"][400]["content"]["application/json"];

export const created: NewPlant = {
  name: "North hall",
  serialNumber: "SN-1",
  type: "GATEWAY",
  authMethod: "TOKEN",
  metadata: { site: "roof", floors: 2 },
};

// @ts-expect-error the kind of a plant is one of four
export const wrong: NewPlant["type"] = "SATELLITE";

export function plantsOf(page: Page): string[] {
  return page.data.map((plant: Plant) => plant.template?.name ?? plant.status);
}

export function errorsOf(refusal: Refusal): string[] {
  return refusal.code === "VALIDATION_ERROR" ? refusal.details : [refusal.message];
}
