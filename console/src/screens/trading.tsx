import { getRouteApi } from "@tanstack/react-router";
import { useTexts } from "../i18n";
import { PageHead } from "../ui/page-head";

import { Sites } from "./sites";
import { TradingConfiguration } from "./trading-configuration";

const route = getRouteApi("/inside/o/$slug/trading");

/** The ESM of the organisation, and its sites with what partners have set there. */
export function TradingScreen() {
  const texts = useTexts();
  const { organization } = route.useRouteContext();
  return (
    <>
      <PageHead title={texts.trading.title} of={organization.name} />
      <TradingConfiguration />
      <Sites />
    </>
  );
}
