import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { apiOf, dataOf, inOrganization } from "../api/client";
import type { components } from "../api/schema";
import { packageFile } from "../first-message";
import { useTexts } from "../i18n";
import { type Plant, plantQuery } from "../plants";
import { Fact } from "../ui/fact";
import { Failure } from "../ui/failure";
import { saveFile } from "../ui/save-file";

type Package = components["schemas"]["ProvisioningPackage"];

interface Props {
  slug: string;
  plant: Plant;
  /** The user has the file. */
  onSaved: () => void;
}

/** Make a plant's credentials and save them as a file. The service returns the secrets, and once more within 15 minutes. */
export function ProvisioningPackage({ slug, plant, onSaved }: Props) {
  const texts = useTexts();
  const queryClient = useQueryClient();
  const [made, setMade] = useState<Package | null>(null);
  const call = apiOf(plant.organizationId);
  const params = { header: inOrganization(plant.organizationId), path: { id: plant.id } };
  const provision = useMutation({
    mutationFn: () => dataOf(call.POST("/api/v1/plants/{id}/provision", { params })),
    onSuccess: (received) => {
      keep(received);
      return queryClient.invalidateQueries(plantQuery(plant.organizationId, plant.id));
    },
  });
  const download = useMutation({
    mutationFn: () => dataOf(call.GET("/api/v1/plants/{id}/provision/download", { params })),
    onSuccess: (received) => keep(received),
  });
  const keep = (received: Package) => {
    setMade(received);
    save(received);
  };
  const save = (received: Package) => saveFile(packageFile(plant.serialNumber), JSON.stringify(received, null, 2));
  // After a response that was lost, the button repeats the request and gets the same package.
  if (made === null && provision.isIdle && plant.lifecycleStatus !== "PENDING") {
    return (
      <div className="card">
        <p>
          {texts.credentials.provisioned(plant.authMethod)}{" "}
          <Link to="/o/$slug/plants/$plantId/credentials" params={{ slug, plantId: plant.id }}>
            {texts.credentials.open}
          </Link>
        </p>
        <Failure error={download.error} />
        <div className="toolbar">
          <button type="button" onClick={() => download.mutate()} disabled={download.isPending}>
            {texts.credentials.saveAgain}
          </button>
          <button type="button" className="primary" onClick={onSaved}>
            {texts.newPlant.next}
          </button>
        </div>
      </div>
    );
  }
  if (made === null) {
    return (
      <div className="card">
        <p>{texts.credentials.provisionHelp}</p>
        <Failure error={provision.error} />
        <div className="toolbar">
          <button type="button" className="primary" onClick={() => provision.mutate()} disabled={provision.isPending}>
            {texts.credentials.provision}
          </button>
        </div>
      </div>
    );
  }
  return (
    <div className="card">
      {provision.isSuccess && <p className="hint">{texts.credentials.packageOnce}</p>}
      <dl className="details">
        <Fact name={texts.credentials.broker}>
          <code>{`${made.mqtt.broker}:${made.mqtt.port}`}</code>
        </Fact>
        <Fact name={texts.credentials.clientId}>
          <code>{made.mqtt.clientId}</code>
        </Fact>
        <Fact name={texts.credentials.topic}>
          <code>{made.mqtt.topics.telemetry}</code>
        </Fact>
      </dl>
      <div className="toolbar">
        <button type="button" onClick={() => save(made)}>
          {texts.credentials.saveAgain}
        </button>
        <button type="button" className="primary" onClick={onSaved}>
          {texts.credentials.packageSaved}
        </button>
      </div>
    </div>
  );
}
