import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { plantQuery } from "../plants";

interface Props {
  organizationId: string;
  slug: string;
  plantId: string;
}

/** The name of a plant as a link to it; its id until the name is known. */
export function PlantName({ organizationId, slug, plantId }: Props) {
  const plant = useQuery({ ...plantQuery(organizationId, plantId), staleTime: 60_000 });
  return (
    <Link to="/o/$slug/plants/$plantId" params={{ slug, plantId }}>
      {plant.data?.name ?? plantId}
    </Link>
  );
}
