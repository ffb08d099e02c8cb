import { useMutation, useQueryClient } from "@tanstack/react-query";
import { apiOf, dataOf } from "./api/client";
import type { DeviceTemplate, DeviceType } from "./devices";

/** A sub-device to register. A device with a template is of the template's type. */
export type NewDevice = { externalId: string; name: string } & ({ template: DeviceTemplate } | { type: DeviceType });

/** Register sub-devices of a plant. */
export function useRegistration(organizationId: string, plantId: string) {
  const queryClient = useQueryClient();
  return useMutation({
    mutationFn: ({ externalId, name, ...kind }: NewDevice) =>
      dataOf(
        apiOf(organizationId).POST("/api/v1/plants/{plantId}/sub-devices", {
          params: { path: { plantId } },
          body: {
            externalId,
            name,
            metadata: {},
            ...("template" in kind ? { type: kind.template.type, templateId: kind.template.id } : kind),
          },
        }),
      ),
    onSuccess: () =>
      Promise.all(
        ["sub-devices", "unregistered"].map((kind) =>
          queryClient.invalidateQueries({ queryKey: [organizationId, kind, plantId] }),
        ),
      ),
  });
}
