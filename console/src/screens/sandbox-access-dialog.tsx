import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { type Organization, sandboxQuery } from "../admin";
import { api, dataOf } from "../api/client";
import { useTexts } from "../i18n";
import { Confirm, Dialog } from "../ui/dialog";
import { Failure } from "../ui/failure";
import { SecretsDialog } from "../ui/secret";

interface Props {
  organization: Organization;
  onClose: () => void;
}

/** Give an organisation access to the sandbox ESM, replace its credentials, or end its access. */
export function SandboxAccessDialog({ organization, onClose }: Props) {
  const texts = useTexts();
  const queryClient = useQueryClient();
  const state = useQuery(sandboxQuery(organization.id));
  const [confirming, setConfirming] = useState<"enable" | "disable" | null>(null);
  const params = { query: { orgId: organization.id } };
  const reload = () => queryClient.invalidateQueries(sandboxQuery(organization.id));
  const enable = useMutation({
    mutationFn: () => dataOf(api.POST("/api/v1/svc-esm/admin/enable", { params })),
    onSuccess: reload,
  });
  const disable = useMutation({
    mutationFn: () => dataOf(api.POST("/api/v1/svc-esm/admin/disable", { params })),
    onSuccess: reload,
  });
  if (enable.data) {
    const secrets = {
      title: texts.sandbox.credentialsOf(organization.name),
      explanation: texts.sandbox.once,
      values: {
        [texts.trading.address]: enable.data.esmApiUrl,
        [texts.sandbox.clientId]: enable.data.clientId,
        [texts.sandbox.clientSecret]: enable.data.clientSecret,
      },
    };
    return <SecretsDialog secrets={secrets} onClose={onClose} />;
  }
  if (confirming !== null) {
    const isEnd = confirming === "disable";
    return (
      <Confirm
        title={isEnd ? texts.sandbox.disableTitle(organization.name) : texts.sandbox.newTitle(organization.name)}
        consequence={texts.sandbox.endConsequence}
        name={organization.name}
        action={isEnd ? texts.sandbox.disable : texts.sandbox.newCredentials}
        run={() => (isEnd ? disable : enable).mutateAsync()}
        onClose={() => setConfirming(null)}
      />
    );
  }
  return (
    <Dialog title={texts.sandbox.accessOf(organization.name)} onClose={onClose} isKept={enable.isPending}>
      <Failure error={state.error ?? enable.error ?? disable.error} />
      <p role="status">
        {state.data !== undefined && (state.data ? texts.sandbox.hasAccess : texts.sandbox.hasNoAccess)}
      </p>
      <div className="toolbar">
        {state.data === false && (
          <button type="button" className="primary" onClick={() => enable.mutate()} disabled={enable.isPending}>
            {texts.sandbox.enable}
          </button>
        )}
        {state.data === true && (
          <>
            <button type="button" onClick={() => setConfirming("enable")}>
              {texts.sandbox.newCredentials}
            </button>
            <button type="button" className="danger" onClick={() => setConfirming("disable")}>
              {texts.sandbox.disable}
            </button>
          </>
        )}
        <button type="button" onClick={onClose}>
          {texts.close}
        </button>
      </div>
    </Dialog>
  );
}
