import { Age } from "./age";
import { PlantHeading } from "./plant-heading";
import { PlantState, type PlantStatus } from "./state";

interface Props {
  slug: string;
  plant: { id: string; name: string; serialNumber: string; status: PlantStatus; lastSeenAt: string | null };
  /** Milliseconds since 1970. */
  now: number;
  timeZone: string;
}

/** The first cells of a row about a plant: its heading, its status, and when it was seen. */
export function PlantCells({ slug, plant, now, timeZone }: Props) {
  return (
    <>
      <PlantHeading slug={slug} plant={plant} />
      <td>
        <PlantState status={plant.status} />
      </td>
      <td>
        <Age time={plant.lastSeenAt} now={now} timeZone={timeZone} short />
      </td>
    </>
  );
}
