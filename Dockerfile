# The image of "make image", for those who build with a container engine:
#
#   make dist notices
#   docker build -t REGISTRY/IMAGE:TAG .
#
# tools/image holds the two to each other.
FROM scratch
ARG TARGETARCH
COPY dist/kubectl-volume_doctor_linux_${TARGETARCH} /kubectl-volume_doctor
COPY dist/kubectl-volume_doctor-serve_linux_${TARGETARCH} /kubectl-volume_doctor-serve
COPY LICENSE bin/NOTICES /
USER 65532:65532
ENTRYPOINT ["/kubectl-volume_doctor"]
